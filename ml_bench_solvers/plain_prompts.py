"""The one place where batches and other harnesses get their prompts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from ml_bench_metric.tasks import Task
from ml_bench_solvers.prompt import Prompt, Setting

_TEMPLATE = "ml-bench-plain/1"
_FORMS = {
    "Bash Script": "Answer with one bash script in a code block.",
    "Python Code": "Answer with one Python program in a code block.",
}


class PromptsUnavailableError(ValueError):
    """A setting has no prompts; the message says which have."""


def prompts_for(tasks: Iterable[Task], setting: str) -> Iterator[tuple[Task, Prompt]]:
    """Yield the tasks with their prompts, in their order.

    Raises:
        PromptsUnavailableError: there is no such setting, or it needs the repositories' text.
    """
    # PromptMaker.make(task) takes the place of _make here, for all four settings.
    if setting not in ("oracle", "instruction"):
        names = ", ".join(get_args(Setting))
        raise PromptsUnavailableError(
            f"setting {setting!r} has no prompts here; of {names}, oracle and instruction have"
        )
    for task in tasks:
        yield task, _make(task, "oracle" if setting == "oracle" else "instruction")


def _make(task: Task, setting: Setting) -> Prompt:
    shown = f"The repository says:\n\n{task.oracle}\n\n" if setting == "oracle" else ""
    text = f"You work in {task.working_folder}.\n\n{shown}{task.instruction}\n\n{_FORMS[task.type]}"
    return Prompt(
        task_id=task.task_id,
        setting=setting,
        messages=({"role": "user", "content": text},),
        template=_TEMPLATE,
        context_characters=len(task.oracle) if setting == "oracle" else 0,
        cut=False,
    )
