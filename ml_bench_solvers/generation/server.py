"""A generation on a server, from its parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from ml_bench_metric.evaluation import Stop
from ml_bench_metric.store import RunError
from ml_bench_solvers.generation.answers import Answer
from ml_bench_solvers.generation.asking import Asker
from ml_bench_solvers.generation.client import ChatClient, Endpoint
from ml_bench_solvers.generation.pacing import Pacer
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.recording import Recorder
from ml_bench_solvers.generation.request_log import RequestLog
from ml_bench_solvers.generation.run import Manner, Run


def run_on_server(
    place: Endpoint,
    model: str,
    questions: Sequence[Question],
    recorder: Recorder,
    folder: Path,
    manner: Manner,
    stop: Stop,
    advance: Callable[[Answer], None] = lambda answer: None,
) -> bool:
    """Ask a server, store what comes, and return whether it ended since `max_cost` is spent.

    Args:
        place: where requests go.
        model: the name that the server knows it by.
        questions: in the order in which they are asked.
        recorder: stores answers.
        folder: of the generation; the log of requests goes there.
        manner: how to ask.
        stop: asks the run to end.
        advance: told of every answer that was stored.

    Raises:
        GenerationStopped: going on is of no use; what was answered is stored.
        RunError: an answer, or the log, cannot be written.
    """
    try:
        log = RequestLog.open(folder)
    except OSError as error:
        raise RunError(f"{folder} cannot be written: {error.strerror or error}; give another --out") from error
    try:
        return asyncio.run(_run(place, model, questions, recorder, log, manner, stop, advance))
    finally:
        log.close()


async def _run(
    place: Endpoint,
    model: str,
    questions: Sequence[Question],
    recorder: Recorder,
    log: RequestLog,
    manner: Manner,
    stop: Stop,
    advance: Callable[[Answer], None],
) -> bool:
    pacer = Pacer(manner.per_minute, first_wait=manner.first_wait)
    async with ChatClient(place, model, stream=manner.stream, deadline=manner.deadline) as client:
        asker = Asker(client, pacer, log, attempts=manner.attempts)
        run = Run(questions, asker, pacer, recorder, manner, stop, advance)
        await run.go()
        return run.out_of_money
