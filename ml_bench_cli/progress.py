"""The live view of a run: a bar with what there is to say so far on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ml_bench_metric.checks import Rule
    from ml_bench_metric.results import Result
    from ml_bench_solvers.agents.attempts import Attempt
    from ml_bench_solvers.generation.answers import Answer

_LINE_SECONDS = 30.0
"""How often a line is written where there is no terminal, in seconds."""


class EvaluationProgress:
    """Counts results, and shows how far an evaluation is and what its score looks like so far."""

    def __init__(self, console: Console, total: int, rule: Rule | None, *, visible: bool) -> None:
        """Show nothing yet.

        Args:
            console: where to show it.
            total: number of candidates to execute.
            rule: of the running score; None where the candidates have none.
            visible: whether to show anything at all.
        """
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from ml_bench_metric.summary import RunningScore

        self._console = console
        self._total = total
        self._score = RunningScore(rule) if rule else None
        self._lines = visible and not console.is_terminal and total > 0
        self._done = 0
        self._errors = 0
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._bar = Progress(
            TextColumn("candidates"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[score]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not (visible and console.is_terminal and total > 0),
        )
        self._task = self._bar.add_task("", total=total, score="")

    def advance(self, result: Result) -> None:
        """Take the next result."""
        self._done += 1
        score = self._score.add(result) if self._score else None
        if result.execution is not None and result.execution.outcome == "environment_error":
            self._errors += 1
        parts = [] if score is None else [f"pass@1 so far {100 * score:.1f} %"]
        if self._errors:
            parts.append(f"{self._errors} environment error{'s' if self._errors > 1 else ''}")
        shown = ", ".join(parts)
        self._bar.update(self._task, advance=1, score=shown)
        now = time.monotonic()
        if self._lines and (now >= self._next_line or self._done == self._total):
            self._next_line = now + _LINE_SECONDS
            if not shown and self._score:
                shown = "no score yet"
            self._console.print(f"{self._done} of {self._total} candidates" + (f", {shown}" if shown else ""))

    def __enter__(self) -> EvaluationProgress:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it is."""
        self._bar.stop()


class GenerationProgress:
    """Counts answers, and shows how far a generation is, what kinds of answers came and what they cost."""

    def __init__(self, console: Console, total: int, *, visible: bool) -> None:
        """Show nothing yet.

        Args:
            console: where to show it.
            total: number of answers that are asked for.
            visible: whether to show anything at all.
        """
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = console
        self._total = total
        self._lines = visible and not console.is_terminal and total > 0
        self._kinds: Counter[str] = Counter()
        self._cost = 0.0
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._bar = Progress(
            TextColumn("answers"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[kinds]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not (visible and console.is_terminal and total > 0),
        )
        self._task = self._bar.add_task("", total=total, kinds="")

    def advance(self, answer: Answer) -> None:
        """Take the next answer."""
        self._kinds[answer.status] += 1
        self._cost += answer.cost or 0.0
        parts = [f"{count} {kind}" for kind, count in self._kinds.items() if kind != "ok"]
        if self._cost:
            parts.append(f"cost {self._cost:.4f}")
        shown = ", ".join(parts)
        self._bar.update(self._task, advance=1, kinds=shown)
        done, now = self._kinds.total(), time.monotonic()
        if self._lines and (now >= self._next_line or done == self._total):
            self._next_line = now + _LINE_SECONDS
            self._console.print(f"{done} of {self._total} answers" + (f", {shown}" if shown else ""))

    def __enter__(self) -> GenerationProgress:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it is."""
        self._bar.stop()


class AgentProgress:
    """Counts attempts of agents, and shows how far a run is, why they ended and what they cost."""

    def __init__(self, console: Console, total: int, *, visible: bool) -> None:
        """Show nothing yet.

        Args:
            console: where to show it.
            total: number of attempts that are to be made.
            visible: whether to show anything at all.
        """
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = console
        self._total = total
        self._lines = visible and not console.is_terminal and total > 0
        self._kinds: Counter[str] = Counter()
        self._cost = 0.0
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._bar = Progress(
            TextColumn("attempts"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[kinds]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not (visible and console.is_terminal and total > 0),
        )
        self._task = self._bar.add_task("", total=total, kinds="")

    def advance(self, attempt: Attempt) -> None:
        """Take the next attempt."""
        self._kinds[attempt.why] += 1
        self._cost += attempt.used.cost
        parts = [f"{count} {kind}" for kind, count in self._kinds.items() if kind != "done"]
        if self._cost:
            parts.append(f"cost {self._cost:.4f}")
        shown = ", ".join(parts)
        self._bar.update(self._task, advance=1, kinds=shown)
        done, now = self._kinds.total(), time.monotonic()
        if self._lines and (now >= self._next_line or done == self._total):
            self._next_line = now + _LINE_SECONDS
            self._console.print(f"{done} of {self._total} attempts" + (f", {shown}" if shown else ""))

    def __enter__(self) -> AgentProgress:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it is."""
        self._bar.stop()
