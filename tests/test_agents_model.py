"""Threads share one model: one pace for all of them, and a way out for each."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import StringIO

import pytest

from ml_bench_solvers.agents.model import Model
from ml_bench_solvers.agents.workspace import AgentError, BudgetSpent
from ml_bench_solvers.generation.answers import Sampling
from ml_bench_solvers.generation.client import endpoint
from ml_bench_solvers.generation.errors import RequestFailed
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.request_log import RequestLog
from ml_bench_solvers.prompt import Prompt
from tests.agent_fakes import FAST, call, calling, scripted
from tests.model_server import Json, Mishap, ModelServer, completion, in_turn

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}


def question(text: str = "?") -> Question:
    prompt = Prompt("t/1", "instruction", ({"role": "user", "content": text},), "", 0, False)
    return Question(prompt, (0,), Sampling(), ({"role": "assistant", "content": "!"},), (TOOL,))


def test_history_and_tools_are_sent() -> None:
    with scripted(in_turn(completion("x"))) as (model, server):
        model.ask(question())
    (request,) = server.requests
    assert [message["role"] for message in request["messages"]] == ["user", "assistant"]
    assert request["tools"] == [TOOL]


def test_a_question_without_tools_says_nothing_of_them() -> None:
    with scripted(in_turn(completion("x"))) as (model, server):
        model.ask(replace(question(), tools=(), history=()))
    assert "tools" not in server.requests[0] and len(server.requests[0]["messages"]) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_calls_come_as_they_were_sent(stream: bool) -> None:
    body = calling(call("a", '{"x": "é"}', "1"), call("b", "not json", "2"), text="words")
    with scripted(in_turn(body), replace(FAST, stream=stream)) as (model, _):
        (choice,) = model.ask(question()).choices
    assert choice.text == "words"
    assert [(one.id, one.name, one.arguments) for one in choice.calls] == [
        ("1", "a", '{"x": "é"}'),
        ("2", "b", "not json"),
    ]


def pieces(*deltas: Json) -> Mishap:
    """Return a stream of pieces of calls."""
    lines: list[Json] = [
        {"choices": [{"index": 0, "delta": {"tool_calls": [delta]}, "finish_reason": None}]} for delta in deltas
    ]
    lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return Mishap(body="".join(f"data: {line}\n\n" for line in [*map(json.dumps, lines), "[DONE]"]).encode())


@pytest.mark.parametrize("numbered", [True, False])
def test_a_call_that_comes_in_pieces_is_put_together(numbered: bool) -> None:
    parts: list[Json] = [
        {"index": 0, "id": "1", "type": "function", "function": {"name": "bash", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"comm'}},
        {"index": 0, "function": {"arguments": 'and": "ls"}'}},
        {"index": 1, "id": "2", "type": "function", "function": {"name": "submit", "arguments": "{}"}},
    ]
    if not numbered:
        parts = [{name: value for name, value in part.items() if name != "index"} for part in parts]
    with scripted(in_turn(pieces(*parts)), replace(FAST, stream=True)) as (model, _):
        (choice,) = model.ask(question()).choices
    assert [(one.id, one.name, one.arguments) for one in choice.calls] == [
        ("1", "bash", '{"command": "ls"}'),
        ("2", "submit", "{}"),
    ]


def test_arguments_that_a_server_has_read_already_are_taken() -> None:
    body = completion({"content": "", "tool_calls": [{"id": "1", "function": {"name": "a", "arguments": {"x": 1}}}]})
    with scripted(in_turn(body)) as (model, _):
        (choice,) = model.ask(question()).choices
    assert choice.calls[0].arguments == '{"x": 1}'


@pytest.mark.parametrize("calls", [None, [], "bash", [{}], [{"function": None}], [{"function": "bash"}]])
def test_calls_of_any_shape_do_no_harm(calls: object) -> None:
    with scripted(in_turn(completion({"content": "x", "tool_calls": calls}))) as (model, _):
        (choice,) = model.ask(question()).choices
    assert choice.text == "x" and all(not one.name for one in choice.calls)


@pytest.mark.parametrize("calls", [[None], [5]])
def test_calls_that_are_none_at_all_are_a_broken_reply(calls: object) -> None:
    body = completion({"content": "x", "tool_calls": calls})
    with scripted(in_turn(body)) as (model, _), pytest.raises(RequestFailed) as caught:
        model.ask(question())
    assert caught.value.label == "broken"


def test_threads_ask_at_the_same_time_and_keep_one_pace() -> None:
    with scripted(in_turn(Mishap(delay=0.2, body=completion("x")))) as (model, server), ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(lambda number: model.ask(question(str(number))), range(4)))) == 4
    assert server.at_once == 0
    with scripted(in_turn(completion("x")), replace(FAST, per_minute=600)) as (model, _), ThreadPoolExecutor(4) as pool:
        begun = time.monotonic()
        list(pool.map(lambda number: model.ask(question(str(number))), range(4)))
        assert time.monotonic() - begun >= 0.3


def test_who_waits_no_longer_goes_at_once_and_others_are_answered() -> None:
    def give_up() -> None:
        raise BudgetSpent("time")

    def script(request: Json) -> Mishap:
        return Mishap(delay=1.5 if request["messages"][0]["content"] == "slow" else 0.0, body=completion("x"))

    with scripted(script) as (model, server):
        begun = time.monotonic()
        with pytest.raises(BudgetSpent):
            model.ask(question("slow"), give_up)
        assert time.monotonic() - begun < 1.4
        assert model.ask(question("quick")).choices[0].text == "x"
        server.released.set()


def test_leaving_gives_up_what_is_asked_for_still() -> None:
    with ModelServer(in_turn(Mishap(delay=20.0, body=completion("x")))) as server, ThreadPoolExecutor(1) as pool:
        with Model(endpoint(server.url, None, None), "m", lambda: RequestLog(StringIO()), FAST) as model:
            asked = pool.submit(model.ask, question())
            while not server.requests:
                time.sleep(0.01)
            begun = time.monotonic()
        with pytest.raises(AgentError, match="is to end"):
            asked.result(5)
        assert time.monotonic() - begun < 2
        server.released.set()
