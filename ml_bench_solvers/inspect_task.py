"""ML-Bench as a task of Inspect AI, judged by this project's judge: `inspect eval ml_bench_solvers/inspect_task.py`.

Inspect asks the models and keeps the log; each answer runs in one of our containers. Epochs are the answers to a task,
and its `pass_at_k` reducers give the unbiased estimate that `ml-bench evaluate` gives. An environment error leaves an
answer unscored, which Inspect counts apart; `inspect score LOG` judges it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import anyio
import anyio.to_thread
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
)
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState, generate
from inspect_ai.util import concurrency

from ml_bench_metric.checks import Rule
from ml_bench_metric.evaluation import Stop
from ml_bench_metric.judge import harness_version
from ml_bench_metric.pass_at_k import checked_ks
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import TaskSet, load_tasks
from ml_bench_metric.verdicts import verdict
from ml_bench_solvers.live_judge import LiveJudge
from ml_bench_solvers.prompt import Message, Setting
from ml_bench_solvers.prompts import prompts_for

_UNSCORED = "scoring_failed"
"""Inspect's word for a score that the instrument could not make."""

_SHOWN_OUTPUT = 2000
"""How much of a candidate's errors an explanation shows, in characters: the end, where the cause is."""

_MESSAGES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


@task
def ml_bench(
    tasks: str | None = None,
    split: str = "L",
    repositories: str | Sequence[str] = (),
    setting: Setting = "oracle",
    rule: Rule = "original",
    answers: int = 5,
    k: int | str | Sequence[int] = (1, 2, 5),
    workers: int | None = None,
    timeout: float | None = None,
    image: str | None = None,
) -> Task:
    """Return ML-Bench as a task of Inspect.

    Args:
        tasks: where the tasks are, see `load_tasks`; None for upstream's data set.
        split: `L` or `A`.
        repositories: only the tasks of these.
        setting: what of the repository the model is shown.
        rule: whose verdict is the score; those of both rules are in its metadata.
        answers: per task, Inspect's epochs.
        k: values of k; those that are larger than `answers` have no value and are left out.
        workers: candidates at a time; None for as many as fit.
        timeout: time limit of a candidate in seconds; None for the original judge's.
        image: runs everything; None for the images that `ml-bench images build` made.

    Raises:
        ValueError: an argument cannot be used; no model was asked.
    """
    ks = [value for value in checked_ks(_whole_numbers(k)) if value <= answers]
    if not ks:
        raise ValueError(f"k is {k!r} and answers is {answers}: no k has a value; give more answers or a smaller k")
    found = _tasks(tasks, split, repositories)
    samples = [
        Sample(
            id=one.task_id,
            input=[_message(message) for message in prompt.messages],
            target=one.output,
            metadata={
                "repository": one.repository,
                "type": one.type,
                "setting": prompt.setting,
                "template": prompt.template,
                "prompt": prompt.digest,
                "cut": prompt.cut,
            },
        )
        for one, prompt in prompts_for(found.tasks, setting)
    ]
    return Task(
        dataset=MemoryDataset(samples, name=f"ml-bench-{split}", location=found.origin),
        solver=generate(),
        scorer=ml_bench_judge(tasks=tasks, split=split, rule=rule, workers=workers, timeout=timeout, image=image),
        epochs=Epochs(answers, [f"pass_at_{value}" for value in ks]),
        metadata={"ml_bench": harness_version(), "rows": found.digest, "origin": found.origin},
    )


@scorer(metrics=[accuracy(), stderr()])
def ml_bench_judge(
    tasks: str | None = None,
    split: str = "L",
    rule: Rule = "original",
    workers: int | None = None,
    timeout: float | None = None,
    image: str | None = None,
    extract: Literal["auto", "none"] = "auto",
) -> Scorer:
    """Return the judge as a scorer of Inspect; its arguments are those of `ml_bench`.

    Raises:
        ValueError: an argument cannot be used.
    """
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}; give one of {', '.join(RULES)}")
    judge = LiveJudge(load_tasks(tasks, split), extract=extract, timeout=timeout, workers=workers, image=image)

    async def score(state: TaskState, target: Target) -> Score:
        stop = Stop()
        execute = partial(judge.execute, str(state.sample_id), state.output.completion, state.epoch - 1, stop)
        try:
            places = await anyio.to_thread.run_sync(judge.workers)
            async with concurrency("ml-bench judge", places):
                result = await anyio.to_thread.run_sync(execute, abandon_on_cancel=True)
        except SandboxError as error:
            return Score.unscored(reason=_UNSCORED, explanation=str(error))
        except anyio.get_cancelled_exc_class():
            # The thread is on its own from here: twice asked, it ends at once and leaves no container.
            stop.ask()
            stop.ask()
            raise
        return score_of(result, rule)

    return score


def score_of(result: Result, rule: Rule) -> Score:
    """Return what a result is worth; unscored where the sandbox failed, which counts neither for nor against it."""
    verdicts = {name: verdict(result, name) for name in RULES}
    execution = result.execution
    found = verdicts[rule]
    metadata: dict[str, Any] = {
        "verdicts": {name: one.passed for name, one in verdicts.items()},
        "reasons": {name: one.reason for name, one in verdicts.items()},
        "outcome": execution.outcome if execution else "no_program",
        "status": execution.status if execution else None,
        "seconds": execution.times.run if execution else None,
        "image": execution.image if execution else None,
        "assets": execution.assets if execution else None,
    }
    program = result.program.text if result.program else None
    explanation = found.reason
    if execution is not None and (errors := (execution.stderr.head + execution.stderr.tail).strip()):
        explanation += "\n\n" + errors[-_SHOWN_OUTPUT:]
    if found.passed is None:
        return Score.unscored(reason=_UNSCORED, answer=program, explanation=explanation, metadata=metadata)
    value = CORRECT if found.passed else INCORRECT
    return Score(value=value, answer=program, explanation=explanation, metadata=metadata)


def _tasks(source: str | None, split: str, repositories: str | Sequence[str]) -> TaskSet:
    found = load_tasks(source, split)
    names = repositories.split(",") if isinstance(repositories, str) else repositories
    return found.only(name.strip() for name in names) if repositories else found


def _whole_numbers(value: int | str | Sequence[int]) -> list[int]:
    """Return the values of k, however Inspect's `-T k=1,2` was read."""
    parts = value.split(",") if isinstance(value, str) else [value] if isinstance(value, int) else value
    return [int(part) for part in parts]


def _message(message: Message) -> ChatMessage:
    return _MESSAGES[message["role"]](content=message["content"])
