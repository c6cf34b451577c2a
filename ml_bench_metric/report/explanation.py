"""Why a candidate got its verdict, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ml_bench_metric.causes import find
from ml_bench_metric.checks import Checks
from ml_bench_metric.printable import printable
from ml_bench_metric.report.assets import NOT_COMPARABLE, WORDS
from ml_bench_metric.report.causes import in_words
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.sandbox.execution import Execution, Output
from ml_bench_metric.tasks import Form
from ml_bench_metric.verdicts import verdict

_MIB = 1024 * 1024
_WORDS = {True: ("passed", "green"), False: ("failed", "red"), None: ("unknown", "yellow")}


def explain(result: Result, console: Console) -> None:
    """Print everything that explains a candidate's verdicts: both of them, the cause of a failure, its
    checks, its program and execution.

    Nothing in the texts of a candidate or of its output can act on the terminal: control characters, also line ends
    other than a newline, are shown as escapes, and markup is shown as it is.
    """
    again = f", execution {result.repeat}" if result.repeat else ""
    title = f"{result.task_id}, candidate {result.candidate}{again} ({_kind(result)})"
    console.print(Text(printable(title), style="bold"), soft_wrap=True)
    for rule in RULES:
        found = verdict(result, rule)
        word, style = _WORDS[found.passed]
        console.print(Text.assemble(f"  {rule:<11}", (word, style), ": ", found.reason), soft_wrap=True)
    for label, text in (*_causes(result), *_facts(result)):
        console.print(Text(f"  {label:<11}{printable(text)}"), soft_wrap=True)
    if result.program is not None:
        program = result.program
        _print_block(f"program, {program.bytes:,} bytes", program.text, console)
        if program.truncated:
            console.print(Text("  … the rest is in the predictions"))
    for path, script in result.scripts.items():
        _print_block(f"{path}, {script.bytes:,} bytes", script.text, console)
    if result.execution is not None:
        if result.execution.commands:
            _print_block("commands that were seen", "\n".join(result.execution.commands), console)
        _print_output("stdout", result.execution.stdout, console)
        _print_output("stderr", result.execution.stderr, console)


def _causes(result: Result) -> Iterator[tuple[str, str]]:
    """Yield why it failed: once where that is the same under all rules under which it did."""
    rules_of: dict[str, list[str]] = {}
    for rule, finding in find(result).items():
        rules_of.setdefault(in_words(finding), []).append(rule)
    for text, rules in rules_of.items():
        yield "cause", text if len(rules_of) == 1 else f"{', '.join(rules)}: {text}"


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    yield "answer", f"sha256 {result.candidate_sha256}"
    yield "extraction", result.extraction
    for problem in result.problems:
        yield "problem", problem
    if result.reused:
        yield "execution", "known from an identical candidate, and not made again"
    if result.execution is not None:
        for rule in RULES:
            yield "checks", f"{rule}: {_checks(result.checks[rule], result.form)}"
        yield from _execution_facts(result.execution, result.limit_seconds)


def _kind(result: Result) -> str:
    return result.type if result.form == "answer" else f"{result.form} for a task of type {result.type}"


def _checks(checks: Checks, form: Form) -> str:
    arguments = "ok" if checks.arguments else "missing " + (", ".join(checks.missing) or "(not named)")
    if form == "run.sh":
        return f"arguments {arguments}"
    return f"type {'ok' if checks.type else 'wrong'}, arguments {arguments}"


def _execution_facts(execution: Execution, limit_seconds: float) -> Iterator[tuple[str, str]]:
    status = "no exit status" if execution.status is None else f"exit status {execution.status}"
    yield "outcome", f"{execution.outcome}, {status}" + (f": {execution.reason}" if execution.reason else "")
    times = execution.times
    yield (
        "time",
        f"run {times.run:.2f} s of {limit_seconds:g} s (queue {times.queue:.2f} s, start {times.start:.2f} s, "
        f"teardown {times.teardown:.2f} s)",
    )
    ready = "" if execution.ready_seconds is None else f", ready to run for {execution.ready_seconds:.2f} s"
    yield "CPU", ("unknown" if execution.cpu_seconds is None else f"{execution.cpu_seconds:.2f} s") + ready
    peak = execution.peak_memory_bytes
    memory = "peak unknown" if peak is None else f"peak {peak / _MIB:.1f} MiB"
    yield "memory", memory + f", {execution.oom_kills} processes killed at the limit"
    yield "image", execution.image or "unknown"
    warning = "; not comparable with runs on the real ones" if execution.assets in NOT_COMPARABLE else ""
    yield "assets", WORDS[execution.assets] + warning


def _print_output(name: str, output: Output, console: Console) -> None:
    title = f"{name}, {output.bytes:,} bytes"
    if not output.truncated:
        _print_block(title, output.head + output.tail, console)
        return
    _print_block(f"{title}, its beginning", output.head, console)
    _print_block(f"{name}, its end", output.tail, console)


def _print_block(title: str, text: str, console: Console) -> None:
    console.print(Text(title, style="bold"))
    # Only at newlines: splitlines would also break at characters that printable shows.
    for line in text.removesuffix("\n").split("\n") if text else ():
        console.print(Text("  | " + printable(line)), soft_wrap=True)
