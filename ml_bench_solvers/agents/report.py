"""The numbers of a run of agents: how many tasks they solve, and what that takes; as a record, and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from ml_bench_metric.checks import Rule
from ml_bench_metric.printable import printable
from ml_bench_metric.results import RULES, JsonRecord
from ml_bench_metric.sandbox.execution import Record
from ml_bench_metric.summary import Group, PassAtK, Summary
from ml_bench_solvers.agents.attempts import Attempt
from ml_bench_solvers.agents.budget import Used
from ml_bench_solvers.agents.command import COMMAND

if TYPE_CHECKING:
    from rich.console import Console

REPORT_FILE = "agents.json"

_COLUMNS = ("tasks", "attempts", "run.sh", "success", "turns", "seconds", "cost")
_NARROWEST_NAME = 12

PUBLISHED_TASKS = 68
"""How many tasks the published split A has."""


@dataclass(frozen=True)
class Published:
    """A row of the ML-Bench paper: what somebody else has measured, under the rule `original`."""

    agent: str
    model: str
    percent: float
    cost: float | None
    """Dollars a task; None where it is not published."""


PUBLISHED = (
    Published("CodeAct (OpenDevin)", "gpt-4o", 76.5, 0.25),
    Published("Aider", "gpt-4o", 64.4, None),
    Published("CodeAct (OpenDevin)", "gpt-4-1106-preview", 58.8, 1.22),
    Published("SWE-Agent", "gpt-4-1106-preview", 42.6, 1.91),
    Published("CodeAct (OpenDevin)", "gpt-3.5-turbo", 13.2, 0.12),
)
"""The published rows of ML-Bench-A. They are shown beside a run of the whole split, and are part of no number of it."""


class Row(Record):
    """The numbers of a repository, or of all."""

    tasks: int
    attempts: int
    """That have come to their end."""
    scripts: int
    """Attempts that have left a `run.sh`."""
    success: dict[Rule, PassAtK]
    """Share of the tasks that are solved, with its interval: pass@1. Tasks without an attempt count as failures."""
    why: dict[str, int]
    """Why attempts have ended -> how many."""
    used: Used
    """By all attempts together."""
    turns: float | None
    """Mean of the attempts; None where there is none."""
    seconds: float | None
    """Mean wall time of the attempts."""
    cost: float | None
    """Mean of the attempts, in the currency of the prices; None also where nobody knows it."""


class AgentReport(JsonRecord):
    """The numbers of a run of agents: its `agents.json`."""

    agent: str
    start: str
    network: str
    allowed: tuple[str, ...] = ()
    """The hosts that network `allowlist` reaches."""
    rule: Rule
    """The rule that leads; numbers of both are here."""
    counted: bool = True
    """Whether tokens and cost were counted. Those of a program that asks its model by itself are not known."""
    overall: Row
    repositories: dict[str, Row]
    spent: float = Field(ge=0)
    """What all attempts have cost, those that were made again, or did not come to their end, among them."""


def agent_report(
    summary: Summary,
    attempts: Sequence[Attempt],
    *,
    agent: str,
    start: str,
    network: str,
    spent: float,
    allowed: tuple[str, ...] = (),
) -> AgentReport:
    """Return the numbers of a run.

    Args:
        summary: of its verdicts.
        attempts: that have come to their end.
        agent: its name.
        start: what it found.
        network: what it reached.
        spent: see `AgentReport.spent`.
        allowed: see `AgentReport.allowed`.
    """
    counted = not agent.startswith(COMMAND)
    return AgentReport(
        agent=agent,
        start=start,
        network=network,
        allowed=allowed,
        rule=summary.rule,
        counted=counted,
        overall=_row(summary.overall, attempts, counted),
        repositories={
            name: _row(group, [one for one in attempts if one.task_id.rpartition("/")[0] == name], counted)
            for name, group in summary.repositories.items()
        },
        spent=spent,
    )


def _row(group: Group, attempts: Sequence[Attempt], counted: bool) -> Row:
    used = sum((attempt.used for attempt in attempts), Used())
    number = len(attempts)
    return Row(
        tasks=group.tasks,
        attempts=number,
        scripts=sum(attempt.script for attempt in attempts),
        success={rule: _first(group.scores[rule].pass_at_k["unbiased"]) for rule in RULES},
        why=dict(sorted(Counter(attempt.why for attempt in attempts).items())),
        used=used,
        turns=used.turns / number if number else None,
        seconds=sum(attempt.seconds for attempt in attempts) / number if number else None,
        cost=used.cost / number if number and counted else None,
    )


def _first(scores: Iterable[PassAtK]) -> PassAtK:
    return next(score for score in scores if score.k == 1)


def render(report: AgentReport, console: Console) -> None:
    """Print a table with a row per repository and one for all, and below it why attempts have ended."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    network = " ".join([report.network, *([f"({', '.join(report.allowed)})"] if report.allowed else [])])
    title = f"{report.agent}: start {report.start}, network {network}; success in %, rule {report.rule}"
    console.print(Text(printable(title), style="bold"))
    rows = {**{printable(name): row for name, row in report.repositories.items()}, "all": report.overall}
    cells = [_cells(row, report.rule) for row in rows.values()]
    columns = list(zip(_COLUMNS, *cells, strict=True))
    width = sum(1 + max(map(len, column)) for column in columns)
    names = max(_NARROWEST_NAME, min(max(map(cell_len, rows)), console.width - width))
    # With a width of its own Rich does not squeeze it: a number that lost a digit would be another number.
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, header_style="bold", width=names + width)
    table.add_column("", overflow="ellipsis", no_wrap=True, width=names)
    for name, *_ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for number, (name, row) in enumerate(zip(rows, cells, strict=True), 1):
        table.add_row(Text(name), *map(Text, row), end_section=number == len(rows) - 1)
    console.print(table, crop=False)
    console.print(Text("turns, seconds, cost: means of the attempts", style="dim"))
    for line in _lines(report):
        console.print(Text(printable(line)), soft_wrap=True)
    if report.overall.tasks == PUBLISHED_TASKS:
        console.print(Text("Published (others' runs, rule original, other machines and versions):", style="bold"))
        for one in PUBLISHED:
            cost = "" if one.cost is None else f", ${one.cost:.2f} a task"
            console.print(Text(f"  {one.agent}, {one.model}: {one.percent:.1f} %{cost}"))


def _cells(row: Row, rule: Rule) -> tuple[str, ...]:
    return (
        str(row.tasks),
        str(row.attempts),
        str(row.scripts),
        _success(row.success[rule]),
        _mean(row.turns, 1),
        _mean(row.seconds, 1),
        _mean(row.cost, 4),
    )


def _success(score: PassAtK) -> str:
    if score.value is not None:
        return f"{100 * score.value:.1f}"
    if score.lower is None or score.upper is None:
        return "-"
    return f"{100 * score.lower:.1f}-{100 * score.upper:.1f}"


def _mean(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _lines(report: AgentReport) -> Iterable[str]:
    row = report.overall
    for rule in RULES:
        score = row.success[rule]
        interval = ""
        if score.interval is not None:
            low, high = score.interval
            interval = f", 95% interval {100 * low:.1f} to {100 * high:.1f}"
        yield f"Success under rule {rule}: {_success(score)} %{interval}"
    yield "Attempts have ended: " + (", ".join(f"{count} {why}" for why, count in row.why.items()) or "none")
    if report.counted:
        tokens = f"{row.used.prompt_tokens} tokens in, {row.used.completion_tokens} out"
        yield f"Used: {row.used.turns} turns, {tokens}, cost {row.used.cost:.4f}"
    else:
        yield f"Used: {row.used.turns} turns; tokens and cost are not known: the program asks its model by itself"
    if report.spent > row.used.cost:
        yield f"Cost with attempts that were made again, or did not come to their end: {report.spent:.4f}"
