"""Question: some of the answers to one task, asked for together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ml_bench_solvers.generation.answers import Sampling
from ml_bench_solvers.prompt import Prompt


@dataclass(frozen=True)
class Question:
    """What is asked for at once."""

    prompt: Prompt
    indices: tuple[int, ...]
    """Which of the task's answers are wanted, ascending."""
    sampling: Sampling

    def only(self, indices: tuple[int, ...]) -> Question:
        """Return the question for some of the answers."""
        return replace(self, indices=indices)

    def apart(self) -> list[Question]:
        """Return a question for each answer."""
        return [self.only((index,)) for index in self.indices]

    @property
    def seed(self) -> int | None:
        """Of the answer, where it is one. Several draws of one seed would be the same draw."""
        return self.sampling.seed_of(self.indices[0])
