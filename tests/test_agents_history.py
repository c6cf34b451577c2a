"""A conversation fits into its budget; what is oldest gives way first, and what servers need stays whole."""

from __future__ import annotations

import json

import pytest

from ml_bench_solvers.agents.history import History, Turn
from ml_bench_solvers.agents.shortening import shortened
from ml_bench_solvers.agents.tools import Action, Outcome


def history(turns: int, *, budget: int, output: int = 2000, said: int = 10, calls: bool = True) -> History:
    found = History(budget)
    found.calls = calls
    for number in range(turns):
        actions = [Action(f"c{number}", "write_file", {"path": "f", "content": "w" * said, "mode": 7})]
        found.add(Turn("s" * said, actions, [Outcome(f"<{number}>" + "o" * output + f"</{number}>")]))
    return found


def test_what_fits_is_left_alone() -> None:
    found = history(3, budget=100_000)
    before = found.messages()
    found.fit(1000)
    assert found.messages() == before


def test_the_oldest_outputs_are_shortened_first_and_the_newest_is_whole() -> None:
    found = history(4, budget=9_000)
    found.fit(1000)
    outputs = [message["content"] for message in found.messages() if message["role"] == "tool"]
    lengths = [len(output) for output in outputs]
    assert lengths == sorted(lengths) and lengths[0] < 400 and lengths[-1] > 2000
    assert outputs[0].startswith("<0>") and outputs[0].endswith("</0>")


def test_room_is_made_for_more_than_one_turn_so_that_the_beginning_stays_the_same() -> None:
    found = history(4, budget=9_000)
    found.fit(1000)
    before = found.messages()
    found.add(Turn("next", [], []))
    found.fit(1000)
    assert found.messages()[: len(before)] == before


def test_then_replies_are_shortened_and_then_the_oldest_turns_go() -> None:
    found = history(6, budget=9_000, output=10, said=3000)
    found.fit(1000)
    assert found.size() + 1000 <= 9000
    messages = found.messages()
    for message in messages:
        for sent in message.get("tool_calls", ()):
            assert json.loads(sent["function"]["arguments"])["mode"] == 7
    tiny = history(60, budget=9_000, output=10)
    tiny.fit(1000)
    note, first, *_ = tiny.messages()
    assert "left out here" in note["content"] and first["role"] == "assistant"
    assert tiny.size() + 1000 <= 9000


def test_a_result_never_loses_its_call() -> None:
    found = history(60, budget=6_000)
    found.fit(1000)
    asked = [sent["id"] for message in found.messages() for sent in message.get("tool_calls", ())]
    assert asked == [message["tool_call_id"] for message in found.messages() if message["role"] == "tool"]


@pytest.mark.parametrize("calls", [True, False])
def test_of_the_last_turn_something_is_left_though_it_does_not_fit(calls: bool) -> None:
    found = history(1, budget=3_000, output=100_000, said=100_000, calls=calls)
    found.fit(2500)
    assert found.size() < 2500 and "<0>" in found.messages()[-1]["content"]


def test_in_text_results_are_the_users_and_nothing_is_a_call() -> None:
    found = history(2, budget=100_000, calls=False)
    assert [message["role"] for message in found.messages()] == ["assistant", "user"] * 2
    assert all(set(message) == {"role", "content"} for message in found.messages())


def test_a_turn_without_words_has_some() -> None:
    found = History(1000)
    found.calls = False
    found.add(Turn("", [], []))
    assert all(message["content"] for message in found.messages())


@pytest.mark.parametrize(("text", "most"), [("", 0), ("abc", 3), ("😀" * 5, 5)])
def test_a_short_text_is_itself(text: str, most: int) -> None:
    assert shortened(text, most) == text


def test_a_long_text_says_how_much_is_missing() -> None:
    assert shortened("abcdefghij", 5) == "ab\n[… 5 characters left out …]\nhij"
