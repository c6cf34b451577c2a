"""Question: some of the answers to one task, asked for together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ml_bench_solvers.generation.answers import Sampling
from ml_bench_solvers.prompt import Prompt


@dataclass(frozen=True)
class Question:
    """What is asked for at once."""

    prompt: Prompt
    indices: tuple[int, ...]
    """Which of the task's answers are wanted, ascending."""
    sampling: Sampling
    history: tuple[Mapping[str, Any], ...] = ()
    """Messages after those of the prompt, as the server takes them: an agent's conversation so far."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """What the model may call, as the server takes it."""

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
