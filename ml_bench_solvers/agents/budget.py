"""What agents may use: on one task, and all of them together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

from pydantic import Field

from ml_bench_metric.sandbox.execution import Record
from ml_bench_solvers.agents.workspace import BudgetSpent

PUBLISHED_TURNS = 10
"""How many turns the published runs of agents had."""

Limit = Literal["turns", "seconds", "cost", "total_cost", "disk"]
"""What an agent's work can be ended by: a task's turns, its wall time, its money, the money of the whole run, or the
disk space of its sandbox."""


class Spent(BudgetSpent):
    """An agent's budget is used up, and which part of it."""

    def __init__(self, limit: Limit, message: str) -> None:
        """Say what is used up, and how much that was."""
        super().__init__(message)
        self.limit: Limit = limit


class Budget(Record):
    """What an agent may use on one task. None: as much as it takes."""

    max_turns: int | None = Field(default=PUBLISHED_TURNS, ge=1)
    """Turns: answers of a model, or commands of a program that asks a model by itself. What the last one asks for is
    still done; the one behind it is refused, so a turn is to be counted before its model is asked."""
    max_seconds: float = Field(default=1800.0, gt=0, le=7 * 24 * 3600, allow_inf_nan=False)
    """Wall time in seconds, from when the sandbox is ready."""
    max_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Money, in the currency of the prices."""


class Used(Record):
    """What was used on one task."""

    turns: int = Field(default=0, ge=0)
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)
    cost: float = Field(default=0.0, ge=0)

    def __add__(self, other: Used) -> Used:
        """Return both together."""
        return Used(
            turns=self.turns + other.turns,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost=self.cost + other.cost,
        )


class Purse:
    """The money of a whole run. Its methods may be called from any thread."""

    def __init__(self, limit: float | None, spent: float = 0.0) -> None:
        """Begin with what earlier parts of the run have spent; a limit of None is none."""
        self.limit = limit
        self._spent = spent
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """Return what was spent so far, in the currency of the prices."""
        with self._lock:
            return self._spent

    @property
    def empty(self) -> bool:
        """Whether nothing more may be begun."""
        return _reaches(self.spent, self.limit)

    def add(self, cost: float) -> None:
        """Count what was spent."""
        with self._lock:
            self._spent += cost


class Meter:
    """Counts what is used on one task. `Spent` is raised where a limit is reached, and again by whatever follows."""

    def __init__(self, budget: Budget, purse: Purse, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin to count now.

        Args:
            budget: of the task.
            purse: of the run.
            clock: returns seconds.
        """
        self._budget = budget
        self._purse = purse
        self._clock = clock
        self._began = clock()
        self._over: Spent | None = None
        self.used = Used()

    def begin(self) -> None:
        """Let the wall time begin now: what making a sandbox takes is not the agent's."""
        self._began = self._clock()

    @property
    def seconds(self) -> float:
        """Wall time since the beginning."""
        return self._clock() - self._began

    @property
    def seconds_left(self) -> float:
        """Wall time that is left, 0 where none is."""
        return max(0.0, self._budget.max_seconds - self.seconds)

    def spend(self, used: Used) -> None:
        """Count what was used.

        Raises:
            Spent: with this, a limit is reached.
        """
        self.used = self.used + used
        self._purse.add(used.cost)
        self.check()

    def end(self, limit: Limit, message: str) -> Spent:
        """Let the work be over for a reason that somebody else has found, and return what says so."""
        self._over = self._over or Spent(limit, message)
        return self._over

    def check(self) -> None:
        """Look whether the work may go on.

        Raises:
            Spent: a limit is reached.
        """
        if self._over is None:
            self._over = self._reached()
        if self._over is not None:
            raise self._over

    def _reached(self) -> Spent | None:
        budget = self._budget
        if self._purse.empty:
            return Spent("total_cost", f"the whole run has spent {self._purse.spent:.4f} of {self._purse.limit:g}")
        if _reaches(self.used.cost, budget.max_cost):
            return Spent("cost", f"the task has cost {self.used.cost:.4f} of {budget.max_cost:g}")
        if budget.max_turns is not None and self.used.turns > budget.max_turns:
            return Spent("turns", f"all {budget.max_turns} turns are used")
        if self.seconds >= budget.max_seconds:
            return Spent("seconds", f"all {budget.max_seconds:g} s are used")
        return None


def _reaches(cost: float, limit: float | None) -> bool:
    """Whether money is used up; what costs nothing goes on whatever the limit."""
    return limit is not None and cost > 0 and cost >= limit
