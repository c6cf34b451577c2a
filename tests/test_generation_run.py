"""A generation goes on where it stopped: whatever ends it, no answer is lost and none is asked for twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ml_bench_metric.evaluation import Stop
from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.generation.errors import GenerationStopped
from ml_bench_solvers.generation.prices import Price
from tests.generation_builders import FAST, folder, generate, predictions, prompt, stored, texts, work
from tests.model_server import Json, Mishap, ModelServer, completion, error, in_turn

PRICE = Price(input=1e6, output=1e6)


def test_what_is_known_is_not_asked_for_again(tmp_path: Path) -> None:
    with ModelServer(in_turn(completion("a", "b"))) as server:
        first = generate(server, tmp_path, work(3, n=2))
        assert generate(server, tmp_path, work(3, n=2)) == first
        assert len(server.requests) == 3


def test_more_answers_are_added_to_those_there_are(tmp_path: Path) -> None:
    with ModelServer(in_turn(completion("a", "b"), completion("c", "d", "e"))) as server:
        generate(server, tmp_path, work(1, n=2))
        assert texts(generate(server, tmp_path, work(1, n=5))) == list("abcde")
        assert [request["n"] for request in server.requests] == [2, 3]
    assert list(predictions(tmp_path).values()) == [list("abcde")]


def test_errors_stay_until_they_are_to_be_tried_again(tmp_path: Path) -> None:
    wanted = work(3)
    with ModelServer(in_turn(completion("a"), error(400, "odd"), completion("c"))) as server:
        manner = replace(FAST, concurrency=1)
        assert [answer.status for answer in generate(server, tmp_path, wanted, manner)] == ["ok", "error", "ok"]
        generate(server, tmp_path, wanted, manner)
        assert len(server.requests) == 3
        assert list(predictions(tmp_path).values()) == [["a"], [""], ["c"]]
        assert [answer.status for answer in generate(server, tmp_path, wanted, retry_errors=True)] == ["ok"] * 3
        assert len(server.requests) == 4
    assert list(predictions(tmp_path).values()) == [["a"], ["c"], ["c"]]


def test_predictions_are_in_the_order_of_the_tasks_whatever_came_first(tmp_path: Path) -> None:
    wanted = work(6)
    order = [prompt.task_id for prompt in wanted.prompts]

    def script(request: Json) -> Mishap:
        task_id = request["messages"][0]["content"]
        return Mishap(body=completion(task_id), delay=0.05 * (6 - order.index(task_id)))

    with ModelServer(script) as server:
        generate(server, tmp_path, wanted)
    assert list(predictions(tmp_path).items()) == [(task_id, [task_id]) for task_id in order]


def test_a_task_is_in_the_predictions_as_soon_as_it_has_all_its_answers(tmp_path: Path) -> None:
    seen: list[int] = []
    with ModelServer(in_turn(completion("a"))) as server:
        manner = replace(FAST, concurrency=1)
        generate(server, tmp_path, work(3, n=2), manner, advance=lambda answer: seen.append(len(predictions(tmp_path))))
    assert seen == [0, 1, 1, 2, 2, 3]


def test_asked_once_to_stop_it_lets_what_runs_come_to_its_end(tmp_path: Path) -> None:
    stop = Stop()

    def script(request: Json) -> Mishap:
        stop.ask()
        return Mishap(body=completion("ls"), delay=0.4)

    with ModelServer(script) as server:
        answers = generate(server, tmp_path, work(9), replace(FAST, concurrency=1), stop=stop)
        assert (texts(answers), len(server.requests)) == (["ls"], 1)


def test_asked_once_to_stop_it_does_not_wait_for_another_attempt(tmp_path: Path) -> None:
    stop = Stop()

    def script(request: Json) -> Mishap:
        stop.ask()
        return error(429, "slow down", retry_after="60")

    begun = time.monotonic()
    with ModelServer(script) as server:
        assert generate(server, tmp_path, work(9), replace(FAST, concurrency=1), stop=stop) == []
    assert time.monotonic() - begun < 5


def test_asked_twice_to_stop_it_stops_at_once(tmp_path: Path) -> None:
    stop = Stop()

    def script(request: Json) -> Mishap:
        stop.ask()
        stop.ask()
        return Mishap(body=completion("ls"), delay=20)

    begun = time.monotonic()
    with ModelServer(script) as server:
        assert generate(server, tmp_path, work(9), replace(FAST, deadline=30), stop=stop) == []
        assert time.monotonic() - begun < 5


def test_it_begins_nothing_once_the_money_is_spent(tmp_path: Path) -> None:
    manner = replace(FAST, concurrency=1, max_cost=40)
    with ModelServer(in_turn(completion("ls", usage=(10, 5)))) as server:
        assert len(generate(server, tmp_path, work(9), manner, price=PRICE)) == 3
        # What an earlier part has spent counts.
        assert len(generate(server, tmp_path, work(9), manner, price=PRICE)) == 3
        assert len(generate(server, tmp_path, work(9), replace(manner, max_cost=60), price=PRICE)) == 4
        assert len(server.requests) == 4


def test_a_budget_that_cannot_be_kept_stops_it(tmp_path: Path) -> None:
    manner = replace(FAST, concurrency=1, max_cost=40)
    with ModelServer(in_turn(completion("ls", usage=None))) as server:
        with pytest.raises(GenerationStopped, match="--max-cost"):
            generate(server, tmp_path, work(9), manner, price=PRICE)
        assert texts(stored(tmp_path, work(9))) == ["ls"]
        assert len(server.requests) == 1


def test_what_was_asked_for_again_is_paid_for_twice(tmp_path: Path) -> None:
    """The error's reply had taken tokens, which nobody gives back."""
    empty = {**completion(usage=(10, 0)), "choices": []}
    manner = replace(FAST, attempts=1, keep_going=True)
    with ModelServer(in_turn(empty, completion("ls", usage=(10, 5)))) as server:
        generate(server, tmp_path, work(), manner, price=PRICE)
        generate(server, tmp_path, work(), manner, price=PRICE, retry_errors=True)
    with folder(tmp_path, work()) as opened:
        assert (opened.paid.prompt_tokens, opened.paid.completion_tokens, opened.paid.cost) == (20, 5, 25)


KILLED = """
import sys
from pathlib import Path
from ml_bench_solvers.generation.run import Manner
from tests.generation_builders import generate, work
generate(sys.argv[1], Path(sys.argv[2]), work(30, n=2), Manner(concurrency=4))
"""


@pytest.mark.parametrize("after", [1, 7, 20])
def test_a_killed_generation_leaves_what_can_be_read_and_gone_on_with(tmp_path: Path, after: int) -> None:
    wanted = work(30, n=2)
    given: list[str] = []

    def script(request: Json) -> Mishap:
        given.append(request["messages"][0]["content"])
        return Mishap(body=completion("a", "b"), delay=0.05)

    with ModelServer(script) as server:
        command = [sys.executable, "-c", KILLED, server.url, str(tmp_path)]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        deadline = time.monotonic() + 30
        while len(given) < after and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        before = stored(tmp_path, wanted)
        tasks = load_tasks("sample", "L")
        left = read_predictions(tmp_path / "predictions.jsonl", tasks)
        assert left.problems == [] and len(left.items) <= len(before) / 2
        asked = len(given)
        assert texts(generate(server, tmp_path, wanted)) == ["a", "b"] * 30
        # Only what ran when it was killed was asked for again.
        assert asked <= len(before) / 2 + 4
        assert len(given) == asked + 30 - len(before) // 2
    assert list(predictions(tmp_path).values()) == [["a", "b"]] * 30


def test_the_log_has_no_text_of_prompt_or_answer(tmp_path: Path) -> None:
    with ModelServer(in_turn(completion("python secret.py"))) as server:
        generate(server, tmp_path, work())
    [line] = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(line) == ["answers", "attempt", "detail", "outcome", "seconds", "task_id", "time"]
    assert "secret" not in json.dumps(line)


def test_a_prompt_that_cannot_be_sent_is_an_error_of_its_task(tmp_path: Path) -> None:
    wanted = work(2)
    prompts = (prompt(wanted.prompts[0].task_id, "half \ud800"), wanted.prompts[1])
    with ModelServer(in_turn(completion("ls"))) as server:
        answers = generate(server, tmp_path, replace(wanted, prompts=prompts))
    assert [(answer.status, answer.attempts) for answer in answers] == [("error", 1), ("ok", 1)]
