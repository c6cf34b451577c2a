"""What `ml_bench.yaml` calls: the tasks as documents, the judge as a filter, Pass@k of a document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datasets

KS = (1, 2, 5)
"""The values of k that `ml_bench.yaml` has metrics of."""

_OPTIONS = ("rule", "workers", "timeout", "image")

_MESSAGE_BREAK = "\n\n"


def load_rows(
    tasks: str | None = None,
    split: str = "L",
    repositories: Sequence[str] = (),
    setting: str = "oracle",
    **others: Any,
) -> dict[str, datasets.Dataset]:
    """Return the documents, a row for each task: its prompt, and all that the judge needs of it.

    Args:
        tasks: where the tasks are, see `load_tasks`; None for upstream's data set.
        split: `L` or `A`.
        repositories: only the tasks of these.
        setting: what of the repository the model is shown.
        others: `rule`, `workers`, `timeout`, `image` of the judge; what else is there belongs to the harness.

    Raises:
        ValueError: there is no such rule or setting; no model was asked.
    """
    import datasets

    from ml_bench_metric.results import RULES
    from ml_bench_metric.tasks import load_tasks
    from ml_bench_solvers.prompts import prompts_for

    if others.get("rule", RULES[0]) not in RULES:
        raise ValueError(f"rule is {others['rule']!r}; give one of {', '.join(RULES)}")
    found = load_tasks(tasks, split)
    chosen = found.only(repositories) if repositories else found
    options = json.dumps({name: others[name] for name in _OPTIONS if name in others})
    rows = [
        {
            "task_id": task.task_id,
            "prompt": _MESSAGE_BREAK.join(message["content"] for message in prompt.messages),
            "reference": task.output,
            "row": json.dumps(task.model_dump()),
            "options": options,
        }
        for task, prompt in prompts_for(chosen.tasks, setting)
    ]
    return {"test": datasets.Dataset.from_list(rows)}


def judge(resps: Sequence[Sequence[str]], docs: Sequence[Mapping[str, str]]) -> list[list[dict[str, Any]]]:
    """Return for each answer to each document what became of it: `passed`, `reason`, `outcome`, `status`, `seconds`.

    Raises:
        SandboxError: nothing can be executed; the answers are in the harness's cache where `--use_cache` was given.
    """
    from ml_bench_metric.compute import compute

    if not docs:
        return []
    options = json.loads(docs[0]["options"])
    found = compute(
        [[_encodable(text) for text in texts] for texts in resps],
        [doc["row"] for doc in docs],
        k=KS,
        rule=options.get("rule", "original"),
        num_workers=options.get("workers"),
        timeout=options.get("timeout"),
        image=options.get("image"),
    )
    return [found["details"].get(doc["task_id"], []) for doc in docs]


def scores(doc: Mapping[str, str], results: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return a document's unbiased Pass@k and its environment errors.

    An answer that the sandbox failed to execute is no answer, and a k larger than the number of answers has no value:
    such a metric is left out, so that the document counts neither for nor against a model.
    """
    from ml_bench_metric.pass_at_k import unbiased

    (verdicts,) = results
    known = [verdict["passed"] for verdict in verdicts if verdict["passed"] is not None]
    found: dict[str, float] = {"environment_errors": len(verdicts) - len(known)}
    for k in KS:
        if k <= len(known):
            found[f"pass@{k}"] = float(unbiased(len(known), sum(known), k))
    return found


def total(values: Iterable[float]) -> float:
    """Return the sum of a metric over all documents."""
    return sum(values)


def _encodable(text: str) -> str:
    # As `evaluate` does it: lone surrogates become question marks.
    return text.encode("utf-8", "replace").decode("utf-8")
