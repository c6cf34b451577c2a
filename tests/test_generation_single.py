"""One question has one answer, or one line that says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ml_bench_cli.main import app
from ml_bench_metric.store import RunFolder
from ml_bench_solvers.generation.client import endpoint
from ml_bench_solvers.generation.errors import GenerationStopped
from ml_bench_solvers.generation.single import ask_once
from tests.model_server import ModelServer, completion, error, in_turn
from tests.result_builders import execution, result


def test_a_reply_is_what_the_model_said_and_is_asked_for_without_chance() -> None:
    with ModelServer(in_turn(completion("because\u2028of that"))) as server:
        assert ask_once(endpoint(server.url, None, None), "m", "why?") == "because\u2028of that"
        (request,) = server.requests
    assert (request["temperature"], request["messages"]) == (0.0, [{"role": "user", "content": "why?"}])


def test_no_reply_is_said_in_one_line() -> None:
    with (
        ModelServer(in_turn(error(404, "no such model"))) as server,
        pytest.raises(GenerationStopped, match=r"m was asked, and did not answer: .*no such model") as caught,
    ):
        ask_once(endpoint(server.url, None, None), "m", "why?")
    assert "\n" not in str(caught.value)


def test_show_asks_a_model_about_failures_alone_and_calls_it_an_opinion(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", {}, {}) as folder:
        folder.append(result(execution=execution(status=1), candidate=0))
        folder.append(result(execution=execution(status=0), candidate=1))
    with ModelServer(in_turn(*[completion("needs_network: it \x1b[2J downloads")] * 2)) as server:
        done = CliRunner().invoke(
            app, ["show", str(tmp_path / "run"), result().task_id, "--llm-judge", "m", "--base-url", server.url]
        )
        asked = len(server.requests)
    assert done.exit_code == 0, done.output
    assert asked == done.output.count("opinion") == 2
    assert "m on original: needs the network" in done.output and "\x1b" not in done.output
