"""`ml-bench generate` does what its help says: right exit status, one clear line for bad input, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ml_bench_sample
from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.tasks import load_tasks
from tests.generation_builders import logged, predictions
from tests.model_server import Json, Mishap, ModelServer, Serve, completion, error, in_turn, replay

COMMAND = [sys.executable, "-c", "from ml_bench_cli.main import main; main()"]

GAN = ("--tasks", "sample", "--only", "tiny-gan")


def _start(*arguments: object, cwd: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *(part if isinstance(part, bytes) else str(part) for part in arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", "HF_TOKEN": "", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def _run(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    process = _start(*arguments, cwd=cwd, **environment)
    stdout, stderr = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def _generate(server: ModelServer, *arguments: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return _run("generate", "--model", "m", "--base-url", server.url, *GAN, *arguments, cwd=cwd, **env)


def _several(request: Json) -> Json:
    return completion(*["python train.py"] * request.get("n", 1), usage=(100, 50))


def test_it_writes_predictions_and_numbers_and_goes_on(serve: Serve, tmp_path: Path) -> None:
    server = serve(_several)
    (tmp_path / "prices.yaml").write_text("m: {input: 1, output: 2}", encoding="utf-8")
    done = _generate(server, "--out", "gen", "--prices", "prices.yaml", cwd=tmp_path)
    count = len(predictions(tmp_path / "gen"))
    assert done.returncode == 0
    assert f"{5 * count} of {5 * count} answers: {5 * count} ok" in done.stdout
    assert f"{100 * count} tokens in, {50 * count} out, cost {count * 200 / 1e6:.4f}" in done.stdout
    assert all(output == ["python train.py"] * 5 for output in predictions(tmp_path / "gen").values())
    numbers = json.loads((tmp_path / "gen" / "generation.json").read_text(encoding="utf-8"))
    assert numbers["paid"]["cost"] == pytest.approx(count * 200 / 1e6)
    assert sum(task["cost"] for task in numbers["tasks"].values()) == pytest.approx(numbers["paid"]["cost"])
    again = _generate(server, "--out", "gen", "--json", cwd=tmp_path)
    assert again.returncode == 0 and json.loads(again.stdout)["answers"]["ok"] == 5 * count
    assert len(server.requests) == count == len(logged(tmp_path / "gen"))


def test_errors_are_said_and_do_not_end_it(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn(completion("ls"), error(400, "maximum context length is 10 tokens"), completion("ls")))
    done = _generate(server, "--out", "gen", "--n", 1, "--concurrency", 1, cwd=tmp_path)
    assert done.returncode == 0
    assert "1 error" in done.stdout and "--retry-errors" in done.stdout
    again = _generate(server, "--out", "gen", "--n", 1, "--retry-errors", cwd=tmp_path)
    assert "error" not in again.stdout


def test_a_wrong_key_is_one_line_with_the_way_out(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn(error(401, "Incorrect API key: sk-wrong")))
    done = _generate(server, "--out", "gen", "--api-key-env", "MY_KEY", cwd=tmp_path, MY_KEY="sk-wrong")
    assert done.returncode == 3
    assert "HTTP 401" in done.stderr and "--api-key-env" in done.stderr and "Traceback" not in done.stderr
    assert "sk-wrong" not in done.stdout + done.stderr
    assert server.headers[0]["authorization"] == "Bearer sk-wrong"
    for path in (tmp_path / "gen").iterdir():
        assert "sk-wrong" not in path.read_text(encoding="utf-8")


def test_where_everything_failed_the_exit_status_says_so(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn(error(400, "no")))
    done = _generate(server, "--out", "gen", "--keep-going", "--n", 1, cwd=tmp_path)
    assert done.returncode == 3 and "error" in done.stdout


def test_spent_money_ends_it_and_more_goes_on(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"m": {"input": 10000, "output": 0}}', encoding="utf-8")
    server = serve(_several)
    options = ("--out", "gen", "--prices", "prices.json", "--concurrency", 1)
    done = _generate(server, *options, "--max-cost", 2, cwd=tmp_path)
    assert done.returncode == 130 and "--max-cost 2" in done.stderr
    assert len(server.requests) == 2 == len(predictions(tmp_path / "gen"))
    assert _generate(server, *options, "--max-cost", 100, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("interrupts", [1, 2])
def test_interrupted_it_keeps_what_it_has(serve: Serve, tmp_path: Path, interrupts: int) -> None:
    def script(request: Json) -> Json | Mishap:
        last = len(server.requests) > 3
        return Mishap(body=_several(request), delay=(30 if interrupts == 2 else 1) if last else 0)

    server = serve(script)
    process = _start(
        "generate", "--model", "m", "--base-url", server.url, *GAN, "--out", "gen", "--concurrency", 1, cwd=tmp_path
    )
    _wait(lambda: len(server.requests) == 4)
    process.send_signal(signal.SIGINT)
    if interrupts == 2:
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130 and "the same command goes on" in stderr and "Traceback" not in stderr
    assert len(predictions(tmp_path / "gen")) == (4 if interrupts == 1 else 3)


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_other_settings_are_refused_or_put_the_old_answers_aside(serve: Serve, tmp_path: Path) -> None:
    server = serve(_several)
    assert _generate(server, "--out", "gen", cwd=tmp_path).returncode == 0
    refused = _generate(server, "--out", "gen", "--temperature", "0.2", cwd=tmp_path)
    assert refused.returncode == 2 and "temperature: 1.0 -> 0.2" in refused.stderr
    restarted = _generate(server, "--out", "gen", "--temperature", "0.2", "--restart", cwd=tmp_path)
    assert restarted.returncode == 0 and (tmp_path / "gen.1" / "predictions.jsonl").exists()


NASTY: dict[str, tuple[tuple[Any, ...], int, str]] = {
    "no model": (("--out", "gen"), 2, "--model"),
    "empty model": (("--model", " ", "--out", "gen"), 2, "--model"),
    "model that is no text": (("--model", b"m\xff", "--out", "gen"), 2, "--model"),
    "URL for a model": (("--model", "http://h/v1", "--out", "gen"), 2, "--base-url"),
    "no URL": (("--model", "m", "--out", "gen", "--base-url", "localhost:8000"), 2, "is no URL"),
    "two places": (("--model", "m", "--out", "gen", "--base-url", "http://h/v1", "--provider", "x"), 2, "--provider"),
    "secret in the URL": (("--model", "m", "--out", "gen", "--base-url", "http://a:pw@h/v1"), 2, "--api-key-env"),
    "key that is not set": (("--model", "m", "--out", "gen", "--api-key-env", "NO_SUCH_KEY"), 2, "NO_SUCH_KEY"),
    "no token": (("--model", "m", "--out", "gen"), 2, "HF_TOKEN"),
    "a budget without prices": (("--model", "m", "--out", "gen", "--max-cost", "1"), 2, "--prices"),
    "prices of others": (
        ("--model", "m", "--out", "gen", "--base-url", "http://h/v1", "--prices", "prices.yaml"),
        2,
        "no price for model",
    ),
    "top_p of 0": (("--model", "m", "--out", "gen", "--top-p", "0"), 2, "--top-p"),
    "temperature that is none": (("--model", "m", "--out", "gen", "--temperature", "nan"), 2, "--temperature"),
    "extra that is no JSON": (("--model", "m", "--out", "gen", "--extra", "{"), 2, "--extra"),
    "extra that is no object": (("--model", "m", "--out", "gen", "--extra", "[1]"), 2, "--extra"),
    "extra that sets n": (("--model", "m", "--out", "gen", "--extra", '{"n": 2}'), 2, "'n'"),
    "empty stop": (("--model", "m", "--out", "gen", "--stop", ""), 2, "--stop"),
    "no answers": (("--model", "m", "--out", "gen", "--n", "0"), 2, "--n"),
    "unknown setting": (("--model", "m", "--out", "gen", "--setting", "everything"), 2, "--setting"),
    "a file for a folder": (("--model", "m", "--out", "prices.yaml", "--base-url", "http://h/v1", *GAN), 2, "--out"),
    "a folder of other things": (("--model", "m", "--out", ".", "--base-url", "http://h/v1", *GAN), 2, "--out"),
    "no such repository": (
        ("--model", "m", "--out", "gen", "--base-url", "http://h/v1", "--tasks", "sample", "--only", "x"),
        2,
        "x",
    ),
    "a missing package": (
        ("--model", "m", "--out", "gen", "--backend", "vllm", *GAN),
        2,
        "pip install 'ml-bench[vllm]'",
    ),
    "a server for a local model": (
        ("--model", "m", "--out", "gen", "--backend", "vllm", "--base-url", "http://h/v1", *GAN),
        2,
        "--base-url",
    ),
    "no server": (
        ("--model", "m", "--out", "gen", "--base-url", "http://127.0.0.1:9/v1", "--attempts", "1", *GAN),
        3,
        "runs",
    ),
}


@pytest.mark.parametrize("case", NASTY)
def test_bad_input_is_one_clear_line(tmp_path: Path, case: str) -> None:
    arguments, status, told = NASTY[case]
    (tmp_path / "prices.yaml").write_text("other: {input: 1, output: 1}", encoding="utf-8")
    done = _run("generate", *arguments, cwd=tmp_path, HOME=str(tmp_path / "home"))
    assert done.returncode == status, done.stderr
    assert told in done.stderr and "Traceback" not in done.stderr
    assert "pw" not in done.stderr


# ---------------------------------------------------------------- from a model to a score


def _recorded() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the sample's answers by the message that asks for them, and by task."""
    from ml_bench_solvers.prompts import prompts_for

    tasks = load_tasks("sample", "L")
    answers = {
        task_id: list(prediction.candidates)
        for task_id, prediction in read_predictions(ml_bench_sample.predictions(), tasks).items.items()
    }
    prompts = {prompt.task_id: prompt.messages[-1]["content"] for _, prompt in prompts_for(tasks.tasks, "oracle")}
    return {prompts[task_id]: texts for task_id, texts in answers.items()}, answers


@pytest.mark.parametrize("options", [(), ("--stream",), ("--concurrency", 1)], ids=["whole", "stream", "one by one"])
def test_recorded_answers_come_out_as_they_went_in(serve: Serve, tmp_path: Path, options: tuple[object, ...]) -> None:
    by_prompt, by_task = _recorded()
    server = serve(replay(by_prompt, together=options != ("--concurrency", 1)))
    done = _run(
        "generate",
        "--model",
        "m",
        "--base-url",
        server.url,
        "--tasks",
        "sample",
        "--out",
        "gen",
        *options,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert predictions(tmp_path / "gen") == by_task


def test_what_was_asked_is_stored_with_the_answers(serve: Serve, tmp_path: Path) -> None:
    server = serve(replay(_recorded()[0]))
    (tmp_path / "own.jinja").write_text("{{ task.instruction }}, in {{ task.folder }}", encoding="utf-8")
    common = ("--model", "m", "--base-url", server.url, "--tasks", "sample", "--out", "gen", "--n", 1)
    assert _run("generate", *common, "--only", "tiny-gan", cwd=tmp_path).returncode == 0
    some = (tmp_path / "gen" / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["task_id"].split("/")[0] for line in some} == {"tiny-gan"}
    assert _run("generate", *common, cwd=tmp_path).returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "gen" / "prompts.jsonl").read_text("utf-8").splitlines()]
    assert [row["task_id"] for row in rows[: len(some)]] == [json.loads(line)["task_id"] for line in some]
    assert sorted(row["task_id"] for row in rows) == sorted(load_tasks("sample", "L").by_id)
    # Other words are another generation.
    refused = _run("generate", *common, "--template", "own.jinja", cwd=tmp_path)
    assert refused.returncode == 2 and "template" in refused.stderr, refused.stderr


@pytest.mark.docker
def test_from_recorded_answers_to_the_score_that_they_deserve(serve: Serve, tmp_path: Path, sample_image: str) -> None:
    by_prompt, _ = _recorded()
    server = serve(replay(by_prompt))
    generated = _run(
        "generate", "--model", "m", "--base-url", server.url, "--tasks", "sample", "--out", "gen", cwd=tmp_path
    )
    assert generated.returncode == 0, generated.stderr
    scores = []
    for name, source in [("generated", "gen/predictions.jsonl"), ("recorded", ml_bench_sample.predictions())]:
        process = _start(
            "evaluate",
            source,
            "--tasks",
            "sample",
            "--repositories",
            "tiny-gan",
            "--limit-time",
            5,
            "--json",
            "--out",
            name,
            "--limit-memory",
            "512m",
            cwd=tmp_path,
            ML_BENCH_CACHE=str(tmp_path / "executions"),
        )
        stdout, stderr = process.communicate(timeout=300)
        assert process.returncode == 0, stderr
        scores.append(json.loads(stdout)["overall"])
    assert scores[0] == scores[1]
    assert scores[0]["missing"] == scores[0]["environment_errors"] == 0
    shown = _run("show", "generated", "tiny-gan/3", cwd=tmp_path)
    assert shown.returncode == 0 and "tiny-gan/3" in shown.stdout
