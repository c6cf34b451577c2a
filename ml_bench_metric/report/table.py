"""The terminal's view of a run: the table of its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ml_bench_metric.printable import printable
from ml_bench_metric.report import causes
from ml_bench_metric.report.assets import NOT_COMPARABLE
from ml_bench_metric.results import RULES
from ml_bench_metric.summary import Group, PassAtK, Summary
from ml_bench_metric.tasks import form_of

_SHOWN_TASKS = 5
"""How many task ids a line names; `summary.json` has them all."""

_NARROWEST_NAME = 12
"""In narrow terminals names are cut to this many cells before columns move to a further table."""

_BEFORE, _AFTER = ("tasks", "n", "c"), ("missing", "errors")
"""The columns with counts, before and after those of pass@k."""

_LEGEND = "n: candidates judged; c: of these, passed; missing: tasks without a prediction; errors: of the environment"


@dataclass(frozen=True)
class _Row:
    name: str
    before: tuple[str, ...]
    scores: tuple[str, ...]
    """One cell per k."""
    after: tuple[str, ...]
    ends_section: bool = False


def render(summary: Summary, console: Console) -> None:
    """Print the table of a run, and below it what its numbers must not be read without.

    A row per repository, per type, and one for all tasks. A cell `40-60` has bounds only, rounded outwards to whole
    percent; `-` is undefined; the lines below say why. Values of k that do not fit beside each other get a further
    table. No number is ever cut.
    """
    rows = list(_rows(summary))
    console.print(Text(f"pass@k in %, rule {summary.rule}, estimator {summary.estimator}", style="bold"))
    for line in _what_it_is_of(summary):
        console.print(Text(printable(line)))
    for positions in _that_fit(summary, rows, console.width):
        console.print(_table(summary, rows, positions, console.width), crop=False)
    console.print(Text(_LEGEND, style="dim"))
    for line in _lines(summary):
        console.print(Text(printable(line)))


def _what_it_is_of(summary: Summary) -> Iterator[str]:
    """Yield what makes the numbers others than the benchmark's, one line each."""
    if summary.selection:
        yield "only repositories: " + ", ".join(summary.selection)
    for left_out in summary.excluded:
        yield f"left out for {left_out.why}: {len(left_out.tasks)} tasks ({_some(left_out.tasks)})"
    if summary.checks_skipped:
        yield "checks skipped: nobody has looked whether the machine was fit for verdicts (--skip-checks)"
    executed = sum(summary.overall.assets.values())
    for kind, how in NOT_COMPARABLE.items():
        if count := summary.overall.assets.get(kind):
            where = ", ".join(name for name, group in summary.repositories.items() if group.assets.get(kind))
            yield (
                f"{how}: {count} of {executed} executions ({where}); not comparable with scores on the real weights "
                "and data"
            )


def _rows(summary: Summary) -> Iterator[_Row]:
    for groups in (summary.repositories, summary.types):
        for number, (name, group) in enumerate(groups.items(), 1):
            yield _row(summary, name, group, number == len(groups))
    yield _row(summary, "all", summary.overall)


def _row(summary: Summary, name: str, group: Group, ends_section: bool = False) -> _Row:
    passed = group.scores[summary.rule].passed
    return _Row(
        name=printable(name),
        before=(str(group.tasks), str(group.candidates), str(passed)),
        scores=tuple(_cell(score) for score in summary.leading(group)),
        after=(str(group.missing), str(group.environment_errors)),
        ends_section=ends_section,
    )


def _cell(score: PassAtK) -> str:
    if score.value is not None:
        return _percent(score.value).removesuffix("%")
    if score.lower is None or score.upper is None:
        return "-"
    return f"{math.floor(100 * score.lower)}-{math.ceil(100 * score.upper)}"


def _that_fit(summary: Summary, rows: Sequence[_Row], width: int) -> list[list[int]]:
    """Return positions in `ks`: for each table as many as it can show in that width, but at least one."""
    tables: list[list[int]] = [[]]
    for position in range(len(summary.ks)):
        wanted = [*tables[-1], position]
        if tables[-1] and _NARROWEST_NAME + _width(_columns(summary, rows, wanted)) > width:
            tables.append([])
        tables[-1].append(position)
    return tables


def _columns(summary: Summary, rows: Sequence[_Row], positions: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the columns but that of the names, each as header and cells."""
    headers = (*_BEFORE, *(f"pass@{summary.ks[position]}" for position in positions), *_AFTER)
    lines = [(*row.before, *(row.scores[position] for position in positions), *row.after) for row in rows]
    return list(zip(headers, *lines, strict=True))


def _width(columns: Sequence[Sequence[str]]) -> int:
    return sum(1 + max(map(len, column)) for column in columns)


def _table(summary: Summary, rows: Sequence[_Row], positions: Sequence[int], width: int) -> Table:
    """Return a table, wider than asked for only where its numbers need that."""
    columns = _columns(summary, rows, positions)
    name_width = max(_NARROWEST_NAME, min(max(cell_len(row.name) for row in rows), width - _width(columns)))
    # With a width of its own Rich does not squeeze it: a number that lost a digit would be another number.
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, padding=0, header_style="bold", width=name_width + _width(columns)
    )
    table.add_column("", no_wrap=True, overflow="ellipsis", width=name_width)
    for header, *_ in columns:
        table.add_column(header, justify="right", no_wrap=True)
    for number, row in enumerate(rows, 1):
        table.add_row(*(Text(cell) for cell in (row.name, *(column[number] for column in columns))))
        if row.ends_section:
            table.add_section()
    return table


def _lines(summary: Summary) -> Iterator[str]:
    overall = summary.overall
    yield ""
    for score in summary.leading(overall):
        yield _score_line(score, summary)
    for rule in RULES:
        if rule != summary.rule:
            scores = overall.scores[rule].pass_at_k[summary.estimator]
            yield f"Rule {rule} instead: " + ", ".join(f"pass@{score.k}={_cell(score)}" for score in scores)
    if summary.ceiling is not None:
        ceiling = summary.ceiling[summary.rule]
        yield (
            f"Ceiling: {_percent(ceiling.share)}, since {ceiling.passed} of {ceiling.tasks} references pass the "
            f"static checks of rule {summary.rule}"
        )
        yield _executed_ceiling_line(summary)
    if summary.missing:
        yield f"Tasks without a prediction, which count as failures: {overall.missing} ({_some(summary.missing)})"
    if overall.environment_errors:
        where = _some(tuple(summary.environment_errors))
        undecided = overall.scores[summary.rule].undecided
        if undecided == overall.environment_errors:
            yield f"Candidates with an environment error, which are not among n: {undecided} ({where})"
        else:
            yield (
                f"Candidates with an environment error: {overall.environment_errors} ({where}), {undecided} of them "
                "not among n; the others fail the static checks anyway"
            )
    if summary.repeats > 1:
        yield _repeats_line(summary)
    if summary.times.reused:
        yield f"Candidates whose execution was known from an identical one: {summary.times.reused}"
    if overall.pending:
        yield f"Candidates not judged yet, which are not among n: {overall.pending}; this run is not complete"
    yield from causes.lines(summary)


def _executed_ceiling_line(summary: Summary) -> str:
    if summary.executed_ceiling is None and form_of(summary.split) == "run.sh":
        return f"Executed ceiling: not known; `ml-bench evaluate --references --split {summary.split}` executes them"
    if summary.executed_ceiling is None:
        return "Executed ceiling: not known for these images and limits; `ml-bench validate` finds it out"
    ceiling = summary.executed_ceiling[summary.rule]
    line = (
        f"Executed ceiling: {_percent(ceiling.share)}, since {ceiling.passed} of {ceiling.tasks} references pass in "
        f"these images under rule {summary.rule}"
    )
    if ceiling.flaky:
        line += f"; passing sometimes: {ceiling.flaky}"
    if ceiling.not_validated:
        line += f"; tasks that were not validated: {ceiling.not_validated}"
    return line


def _repeats_line(summary: Summary) -> str:
    flaky = summary.flaky[summary.rule]
    count = sum(map(len, flaky.values()))
    where = f" ({_some(tuple(flaky))})" if flaky else ""
    return (
        f"Executed {summary.repeats} times each; the scores are of the first execution. Candidates whose verdict under "
        f"rule {summary.rule} was not always the same: {count}{where}"
    )


def _score_line(score: PassAtK, summary: Summary) -> str:
    name, tasks = f"pass@{score.k}", summary.overall.tasks
    if score.lower is None or score.upper is None:
        return f"{name} is undefined (tasks with fewer than {score.k} candidates: {score.short_tasks} of {tasks})"
    bounds = f"{_percent(score.lower, 2)} and {_percent(score.upper, 2)}"
    if score.value is None or score.interval is None:
        return f"{name} lies between {bounds} (tasks that hang on candidates not judged: {score.open_tasks} of {tasks})"
    low, high = score.interval
    line = f"{name} {_percent(score.value)}, {100 * summary.confidence:g}% interval {_percent(low)} to {_percent(high)}"
    if score.lower < score.upper:
        line += f"; between {bounds} whatever the candidates not judged would have done"
    return line


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f}%"


def _some(task_ids: Sequence[str]) -> str:
    more = len(task_ids) - _SHOWN_TASKS
    return ", ".join(task_ids[:_SHOWN_TASKS]) + (f" and {more} more" if more > 0 else "")
