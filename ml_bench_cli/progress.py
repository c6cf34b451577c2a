"""The live view of a run: a bar with what there is to say so far on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

    from ml_bench_metric.checks import Rule
    from ml_bench_metric.results import Result
    from ml_bench_solvers.agents.attempts import Attempt
    from ml_bench_solvers.generation.answers import Answer

_LINE_SECONDS = 30.0
"""How often a line is written where there is no terminal, in seconds."""


AnyView = TypeVar("AnyView", bound="_View")


class _View:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, what: str, total: int, *, visible: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = console
        self._what = what
        self._total = total
        self._done = 0
        self._lines = visible and not console.is_terminal and total > 0
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._bar = Progress(
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not (visible and console.is_terminal and total > 0),
        )
        self._task = self._bar.add_task("", total=total, said="")

    def _count(self, parts: list[str], otherwise: str = "") -> None:
        """Count one more, and show what there is to say; a line has something else where there is nothing."""
        self._done += 1
        shown = ", ".join(parts)
        self._bar.update(self._task, advance=1, said=shown)
        now = time.monotonic()
        if self._lines and (now >= self._next_line or self._done == self._total):
            self._next_line = now + _LINE_SECONDS
            said = shown or otherwise
            self._console.print(f"{self._done} of {self._total} {self._what}" + (f", {said}" if said else ""))

    def __enter__(self: AnyView) -> AnyView:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it is."""
        self._bar.stop()


class EvaluationProgress(_View):
    """Counts results, and shows how far an evaluation is and what its score looks like so far."""

    def __init__(self, console: Console, total: int, rule: Rule | None, *, visible: bool) -> None:
        """Show nothing yet.

        Args:
            console: where to show it.
            total: number of candidates to execute.
            rule: of the running score; None where the candidates have none.
            visible: whether to show anything at all.
        """
        from ml_bench_metric.summary import RunningScore

        super().__init__(console, "candidates", total, visible=visible)
        self._score = RunningScore(rule) if rule else None
        self._errors = 0

    def advance(self, result: Result) -> None:
        """Take the next result."""
        score = self._score.add(result) if self._score else None
        if result.execution is not None and result.execution.outcome == "environment_error":
            self._errors += 1
        parts = [] if score is None else [f"pass@1 so far {100 * score:.1f} %"]
        if self._errors:
            parts.append(f"{self._errors} environment error{'s' if self._errors > 1 else ''}")
        self._count(parts, "no score yet" if self._score else "")


class _Tally(_View):
    """Counts what ended in which way, and what it cost."""

    def __init__(self, console: Console, what: str, usual: str, total: int, *, visible: bool) -> None:
        super().__init__(console, what, total, visible=visible)
        self._usual = usual
        self._kinds: Counter[str] = Counter()
        self._cost = 0.0

    def _take(self, kind: str, cost: float) -> None:
        self._kinds[kind] += 1
        self._cost += cost
        parts = [f"{count} {kind}" for kind, count in self._kinds.items() if kind != self._usual]
        if self._cost:
            parts.append(f"cost {self._cost:.4f}")
        self._count(parts)


class GenerationProgress(_Tally):
    """Counts answers, and shows how far a generation is, what kinds of answers came and what they cost."""

    def __init__(self, console: Console, total: int, *, visible: bool) -> None:
        """Show nothing yet.

        Args:
            console: where to show it.
            total: number of answers that are asked for.
            visible: whether to show anything at all.
        """
        super().__init__(console, "answers", "ok", total, visible=visible)

    def advance(self, answer: Answer) -> None:
        """Take the next answer."""
        self._take(answer.status, answer.cost or 0.0)


class AgentProgress(_Tally):
    """Counts attempts of agents, and shows how far a run is, why they ended and what they cost."""

    def __init__(self, console: Console, total: int, *, visible: bool) -> None:
        """Show nothing yet.

        Args:
            console: where to show it.
            total: number of attempts that are to be made.
            visible: whether to show anything at all.
        """
        super().__init__(console, "attempts", "done", total, visible=visible)

    def advance(self, attempt: Attempt) -> None:
        """Take the next attempt."""
        self._take(attempt.why, attempt.used.cost)
