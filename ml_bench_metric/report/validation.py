"""What a validation found beside what is known: the record of it, and its tables for a terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ml_bench_metric.checks import Rule
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.known_issues import Issue
from ml_bench_metric.printable import printable
from ml_bench_metric.report.assets import WORDS
from ml_bench_metric.results import RULES, JsonRecord
from ml_bench_metric.sandbox.execution import Assets, Record
from ml_bench_metric.tasks import TaskSet
from ml_bench_metric.validation import Findings, Made, TaskValidation

_MIB = 1024 * 1024

_COLUMNS = ("task", *RULES, "ended", "time s", "CPU s", "MiB")
_NUMBERS = ("time s", "CPU s", "MiB")
_REMARKS = "remarks"

_NARROWEST_TEXT = 12
"""In narrow terminals how executions ended is folded to this many cells before a table gets wider than the terminal."""

_COUNTS = ("repository", "tasks", "validated", *RULES, "flaky", "unexpected")


class CheckedTask(Record):
    """What was found of a task, beside what is known of it."""

    found: TaskValidation
    known: tuple[Issue, ...]
    """Its known issues in such an image."""
    unexpected: tuple[str, ...]
    """What contradicts them, or must not be at all."""


class CheckedImage(Record):
    """What was found in one image."""

    image: str
    """Its digest `sha256:…`."""
    assets: Assets
    tasks: dict[str, CheckedTask]
    """`task_id` -> what was found, in the order of the tasks."""


class ValidationReport(JsonRecord):
    """A validation as a whole: its `validation.json`."""

    made: Made
    origin: str
    """Where the tasks come from."""
    selection: tuple[str, ...]
    """The repositories that the tasks were cut down to; empty where those of all of the split were validated."""
    repeat: int
    """How often each reference was to be executed."""
    repositories: dict[str, int]
    """Repository -> number of its tasks."""
    images: tuple[CheckedImage, ...]
    not_validated: dict[str, str]
    """`task_id` -> why nothing was found out about it."""
    failed: tuple[str, ...]
    """`task_id` of those among them that have an image, and that the sandbox failed."""

    @property
    def checked(self) -> dict[str, CheckedTask]:
        """`task_id` -> what was found, of the tasks of all images."""
        return {task_id: checked for image in self.images for task_id, checked in image.tasks.items()}

    @property
    def unexpected(self) -> tuple[str, ...]:
        """Everything that was not to be expected, a line each that begins with the `task_id`."""
        contradictions = tuple(
            f"{task_id}: {what}" for task_id, checked in self.checked.items() for what in checked.unexpected
        )
        return contradictions + tuple(f"{task_id}: {self.not_validated[task_id]}" for task_id in self.failed)


def report_of(
    findings: Findings,
    tasks: TaskSet,
    images: Mapping[str, TaskImage],
    missing: Mapping[str, str],
    issues: Iterable[Issue],
    *,
    repeat: int,
    made: Made,
) -> ValidationReport:
    """Return the report of a validation.

    Args:
        findings: what was found of the tasks that have an image.
        tasks: all tasks.
        images: `task_id` -> its image.
        missing: `task_id` -> why it has none.
        issues: the known issues of the tasks in these images.
        repeat: how often each reference was to be executed.
        made: how it was found.
    """
    known: dict[str, list[Issue]] = {task.task_id: [] for task in tasks.tasks}
    for issue in issues:
        known[issue.task_id].append(issue)
    of_image: dict[str, CheckedImage] = {}
    for task_id, found in findings.tasks.items():
        image = images[task_id]
        in_it = of_image.setdefault(image.digest, CheckedImage(image=image.digest, assets=image.assets, tasks={}))
        in_it.tasks[task_id] = CheckedTask(
            found=found, known=tuple(known[task_id]), unexpected=tuple(_unexpected(found, known[task_id]))
        )
    reasons = {
        **missing,
        **{task_id: f"environment error: {reason}" for task_id, reason in findings.failed.items()},
        **dict.fromkeys(findings.pending, "not executed to its end"),
    }
    return ValidationReport(
        made=made,
        origin=tasks.origin,
        selection=tasks.selection,
        repeat=repeat,
        repositories=dict(Counter(task.repository for task in tasks.tasks)),
        images=tuple(of_image.values()),
        not_validated={task.task_id: reasons[task.task_id] for task in tasks.tasks if task.task_id in reasons},
        failed=tuple(findings.failed),
    )


def _unexpected(found: TaskValidation, known: Sequence[Issue]) -> Iterator[str]:
    rules_of: dict[str, list[Rule]] = {}
    for rule in RULES:
        causes = ", ".join(issue.cause for issue in known if rule in issue.rules)
        if found.passes(rule):
            what = f"passes, though it has a known issue ({causes})" if causes else ""
        elif causes:
            what = ""
        elif found.is_flaky(rule):
            what = f"passes {found.passed[rule]} of {len(found.outcomes)} times, and has no known issue"
        else:
            what = f"does not pass ({_ended(found)}), and has no known issue"
        if what:
            rules_of.setdefault(what, []).append(rule)
    if found.empty_passes:
        rules_of["the empty candidate passes"] = list(found.empty_passes)
    for what, rules in rules_of.items():
        yield f"{'both rules' if tuple(rules) == RULES else f'rule {rules[0]}'}: {what}"


def _ended(found: TaskValidation) -> str:
    return ", ".join(
        outcome if count == len(found.outcomes) else f"{count}x {outcome}"
        for outcome, count in Counter(found.outcomes).items()
    )


# ---------------------------------------------------------------- tables


def render(report: ValidationReport, console: Console) -> None:
    """Print the report: counts for each repository, a table for each image, and what was not to be expected."""
    console.print(Text(printable(_title(report)), style="bold"))
    _print_table(console, _COUNTS, list(_counts(report)), numbers=_COUNTS[1:])
    for image in report.images:
        console.print()
        console.print(Text(printable(_name_of(image)), style="bold"))
        _print_table(console, _COLUMNS, [_row(*item) for item in image.tasks.items()], numbers=_NUMBERS)
        for task_id, checked in image.tasks.items():
            if remarks := _remarks(checked):
                console.print(Text(printable(f"{task_id}: {remarks}")))
    for title, lines in _lists(report):
        console.print()
        console.print(Text(title, style="bold"))
        for line in lines:
            console.print(Text(f"  {printable(line)}"))


def to_markdown(report: ValidationReport) -> str:
    """Return the report as Markdown: what `render` prints, without the limits of a terminal."""
    parts = [
        f"# {_plain(_title(report))}",
        "\n".join(f"- {_plain(fact)}" for fact in _facts(report)),
        _markdown_table(_COUNTS, _counts(report), numbers=_COUNTS[1:]),
    ]
    for image in report.images:
        rows = [(*_row(task_id, checked), _remarks(checked)) for task_id, checked in image.tasks.items()]
        parts += [f"## {_plain(_name_of(image))}", _markdown_table((*_COLUMNS, _REMARKS), rows, numbers=_NUMBERS)]
    for title, lines in _lists(report):
        parts += [f"## {title}", "\n".join(f"- {_plain(line)}" for line in lines)]
    return "\n\n".join(parts) + "\n"


def _title(report: ValidationReport) -> str:
    of = f" ({', '.join(report.selection)})" if report.selection else ""
    return f"Validation of split {report.made.split}{of}: references executed {report.repeat} times"


def _facts(report: ValidationReport) -> Iterator[str]:
    made, settings = report.made, report.made.settings
    seconds, limits = settings.seconds, settings.limits
    yield f"tasks of {report.origin}, digest {made.tasks_digest}"
    yield (
        f"limits: {'the seconds of the original judge' if seconds is None else f'{seconds:g} s'}, CPUs: {limits.cpus}, "
        f"GPUs: {limits.gpus}, {limits.memory_bytes / _MIB:g} MiB"
    )
    yield f"extraction {settings.extract}"
    yield f"ml-bench {made.harness}, {made.engine}, {made.date}"
    load = "not known" if made.load is None else f"{made.load:.1f}"
    yield f"load of the machine before: {load}" + (", candidates shared CPUs" if made.cpus_are_shared else "")
    if made.checks_skipped:
        yield "checks skipped: the machine was not tried out before (--skip-checks)"


def _name_of(image: CheckedImage) -> str:
    return f"{image.image} ({WORDS[image.assets]})"


def _counts(report: ValidationReport) -> Iterator[tuple[str, ...]]:
    checked = report.checked
    for name, tasks in report.repositories.items():
        yield _count(name, tasks, [one for task_id, one in checked.items() if task_id.rpartition("/")[0] == name])
    if len(report.repositories) > 1:
        yield _count("all", sum(report.repositories.values()), list(checked.values()))


def _count(name: str, tasks: int, checked: Sequence[CheckedTask]) -> tuple[str, ...]:
    return (
        name,
        str(tasks),
        str(len(checked)),
        *(str(sum(one.found.passes(rule) for one in checked)) for rule in RULES),
        str(sum(any(one.found.is_flaky(rule) for rule in RULES) for one in checked)),
        str(sum(bool(one.unexpected) for one in checked)),
    )


def _row(task_id: str, checked: CheckedTask) -> tuple[str, ...]:
    found = checked.found
    return (
        task_id,
        *(_cell(found, rule) for rule in RULES),
        _ended(found),
        f"{found.seconds:.2f}",
        "-" if found.cpu_seconds is None else f"{found.cpu_seconds:.2f}",
        "-" if found.peak_memory_bytes is None else f"{found.peak_memory_bytes / _MIB:.0f}",
    )


def _cell(found: TaskValidation, rule: Rule) -> str:
    if found.is_flaky(rule):
        return f"flaky {found.passed[rule]}/{len(found.outcomes)}"
    return "pass" if found.passes(rule) else "fail"


def _remarks(checked: CheckedTask) -> str:
    remarks = ["UNEXPECTED"] if checked.unexpected else []
    for issue in checked.known:
        rules = "" if issue.rules == RULES else f" ({', '.join(issue.rules)})"
        remarks.append(f"known {issue.cause}{rules}: {issue.reason}")
    if checked.found.no_op_passes:
        remarks.append(f"a no-op passes here ({', '.join(checked.found.no_op_passes)})")
    return "; ".join(remarks)


def _lists(report: ValidationReport) -> Iterator[tuple[str, Sequence[str]]]:
    if report.unexpected:
        yield "Unexpected", report.unexpected
    if report.not_validated:
        yield "Not validated", [f"{task_id}: {reason}" for task_id, reason in report.not_validated.items()]


def _print_table(
    console: Console, headers: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[str]
) -> None:
    """Print a table. Names, verdicts and numbers are never cut: where they need that, it is wider than the terminal."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, header_style="bold")
    shown = [[printable(cell) for cell in row] for row in rows]
    narrowest = 0
    for header, *cells in zip(headers, *shown, strict=True):
        width = max(map(cell_len, (header, *cells)))
        is_whole = header != "ended"
        narrowest += 1 + (width if is_whole else min(width, _NARROWEST_TEXT))
        table.add_column(
            header,
            justify="right" if header in numbers else "left",
            width=width if is_whole else None,
            no_wrap=is_whole,
            overflow="fold",
        )
    for row in shown:
        table.add_row(*map(Text, row))
    if narrowest > console.width:
        table.width = narrowest
    console.print(table, crop=False)


def _markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str]) -> str:
    lines = [headers, ["--:" if header in numbers else "---" for header in headers], *rows]
    return "\n".join("| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines)


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|" else c for c in printable(text))
