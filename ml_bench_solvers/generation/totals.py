"""What a generation came to: answers by status, tokens and cost, per task and in sum."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

from ml_bench_solvers.generation.answers import Answer, Status
from ml_bench_solvers.generation.folder import GenerationFolder, Paid
from ml_bench_solvers.generation.prices import Price
from ml_bench_solvers.generation.work import Work


def totals(folder: GenerationFolder, work: Work, price: Price | None) -> dict[str, Any]:
    """Return the numbers of a generation as plain JSON values.

    `answers` and `tasks` are about the answers that are wanted; `paid` is over everything in the folder, answers that
    were asked for again among it. A cost is None where the price is not known. Where `without_usage` is not 0, tokens
    and cost are lower bounds: the server did not say what so many answers took.
    """
    keys = work.keys
    tasks = {
        task_id: [folder.answers[key] for key in wanted if key in folder.answers] for task_id, wanted in keys.items()
    }
    found = [answer for answers in tasks.values() for answer in answers]
    statuses = Counter(answer.status for answer in found)
    return {
        "n": work.n,
        "tasks_complete": sum(map(folder.is_complete, keys)),
        "tasks_wanted": len(keys),
        "answers": {
            "wanted": work.n * len(keys),
            "known": len(found),
            **{status: statuses[status] for status in get_args(Status)},
        },
        "models": sorted({answer.model for answer in found if answer.model}),
        "prices": price.model_dump() if price else None,
        "paid": _sums(folder.paid, price),
        "tasks": {task_id: _task(answers, price) for task_id, answers in tasks.items()},
    }


def _task(answers: list[Answer], price: Price | None) -> dict[str, Any]:
    paid = Paid()
    for answer in answers:
        paid.add(answer)
    return {"answers": [answer.status for answer in answers], **_sums(paid, price)}


def _sums(paid: Paid, price: Price | None) -> dict[str, Any]:
    return {
        "prompt_tokens": paid.prompt_tokens,
        "completion_tokens": paid.completion_tokens,
        "cost": paid.cost if price else None,
        "without_usage": paid.without_usage,
    }
