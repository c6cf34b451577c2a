"""What is to be asked: prompts of tasks, the keys of their answers, and which of them are not known yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ml_bench_metric.tasks import Task
from ml_bench_solvers.generation.answers import Sampling, answer_key
from ml_bench_solvers.generation.errors import GenerationError
from ml_bench_solvers.generation.folder import GenerationFolder
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.prompt import Prompt


@dataclass(frozen=True)
class Work:
    """Which answers of which model are wanted."""

    prompts: tuple[Prompt, ...]
    """In the order of the tasks, one each."""
    model: str
    sampling: Sampling
    n: int
    """Answers to each task."""

    @classmethod
    def of(cls, prompts: Iterable[tuple[Task, Prompt]], model: str, sampling: Sampling, n: int) -> Work:
        """Return the work of some tasks and their prompts.

        Raises:
            GenerationError: there is none, or a prompt is not that of its task.
        """
        found: dict[str, Prompt] = {}
        for task, prompt in prompts:
            if prompt.task_id != task.task_id or prompt.task_id in found:
                raise GenerationError(
                    f"task {task.task_id} has a prompt for {prompt.task_id}: each needs one of its own"
                )
            found[prompt.task_id] = prompt
        if not found:
            raise GenerationError("there is no task to ask about; look at --tasks, --split and --only")
        return cls(tuple(found.values()), model, sampling, n)

    @property
    def keys(self) -> dict[str, list[str]]:
        """`task_id` -> the keys of its answers."""
        return {
            prompt.task_id: [answer_key(prompt, self.model, self.sampling, index) for index in range(self.n)]
            for prompt in self.prompts
        }

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal for answers to belong together. Not `n`: more answers can be had later."""
        return {
            "kind": "generation",
            "model": self.model,
            "sampling": self.sampling.model_dump(),
            "setting": sorted({prompt.setting for prompt in self.prompts}),
            "template": sorted({prompt.template for prompt in self.prompts}),
        }

    def questions(self, folder: GenerationFolder, *, retry_errors: bool) -> list[Question]:
        """Return what is to be asked, a question for each task that lacks answers.

        Args:
            folder: holds the answers that are known.
            retry_errors: whether to ask again for what failed.
        """
        questions = []
        for prompt in self.prompts:
            lacking = []
            for index in range(self.n):
                known = folder.answers.get(answer_key(prompt, self.model, self.sampling, index))
                if known is None or (retry_errors and known.status == "error"):
                    lacking.append(index)
            if lacking:
                questions.append(Question(prompt, tuple(lacking), self.sampling))
        return questions
