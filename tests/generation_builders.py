"""Generations in tests: prompts, a folder, and a whole run against a server, with waits of milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ml_bench_metric.evaluation import Stop
from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.generation.answers import Answer, Sampling
from ml_bench_solvers.generation.client import Endpoint
from ml_bench_solvers.generation.folder import GenerationFolder, read_answers
from ml_bench_solvers.generation.prices import Price
from ml_bench_solvers.generation.recording import Recorder
from ml_bench_solvers.generation.run import Manner
from ml_bench_solvers.generation.server import run_on_server
from ml_bench_solvers.generation.work import Work
from ml_bench_solvers.prompt import Prompt
from tests.model_server import ModelServer

KEY = "sk-very-secret"

FAST = Manner(first_wait=0.001, attempts=3, deadline=5.0)


def prompt(task_id: str, text: str | None = None) -> Prompt:
    """Return a prompt whose message is the name of its task, unless another is given."""
    return Prompt(task_id, "oracle", ({"role": "user", "content": text or task_id},), "test/1", 0, False)


def work(tasks: int = 1, n: int = 1, sampling: Sampling | None = None, model: str = "m") -> Work:
    """Return work for the first tasks of the sample."""
    found = load_tasks("sample", "L").tasks[:tasks]
    return Work.of([(task, prompt(task.task_id)) for task in found], model, sampling or Sampling(), n)


def folder(path: Path, wanted: Work) -> GenerationFolder:
    """Return the folder of some work."""
    return GenerationFolder(path, wanted.identity, {}, wanted.keys)


def generate(
    server: ModelServer | str,
    path: Path,
    wanted: Work,
    manner: Manner = FAST,
    *,
    price: Price | None = None,
    retry_errors: bool = False,
    stop: Stop | None = None,
    advance: Callable[[Answer], None] = lambda answer: None,
) -> list[Answer]:
    """Ask for what a folder lacks, and return the answers that are wanted and stored then, in their order."""
    url = server if isinstance(server, str) else server.url
    with folder(path, wanted) as opened:
        try:
            run_on_server(
                Endpoint(url, None, KEY),
                wanted.model,
                wanted.questions(opened, retry_errors=retry_errors),
                Recorder(opened, wanted.model, price),
                path,
                manner,
                stop or Stop(),
                advance,
            )
        finally:
            opened.write_predictions()
    return stored(path, wanted)


def stored(path: Path, wanted: Work) -> list[Answer]:
    """Return the answers that are wanted and stored, in their order."""
    found = {answer.key: answer for answer in read_answers(path)}
    return [found[key] for keys in wanted.keys.values() for key in keys if key in found]


def predictions(path: Path) -> dict[str, list[str]]:
    """Return what stands in a folder's predictions, which must be whole."""
    rows = [json.loads(line) for line in (path / "predictions.jsonl").read_bytes().splitlines()]
    assert len({row["task_id"] for row in rows}) == len(rows), "a task stands there twice"
    return {row["task_id"]: row["output"] for row in rows}


def logged(path: Path) -> list[dict[str, Any]]:
    """Return the log of requests."""
    return [json.loads(line) for line in (path / "requests.jsonl").read_text(encoding="utf-8").splitlines()]


def texts(answers: Sequence[Answer]) -> list[str]:
    """Return the texts of answers."""
    return [answer.text for answer in answers]
