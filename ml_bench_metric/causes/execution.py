"""From an execution to the cause of its failure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ml_bench_metric.causes import answer, complaints, raised
from ml_bench_metric.causes.kinds import OF_THE_PROGRAM, FailureCause, Finding
from ml_bench_metric.causes.output_lines import lines
from ml_bench_metric.causes.tracebacks import RaisedException, exceptions
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox.execution import Execution, Outcome

_OF_OUTCOMES: Mapping[Outcome, FailureCause] = {
    "out_of_memory": "out_of_memory",
    "disk_full": "disk_limit",
    "output_limit": "output_limit",
}

_WRAPPERS = ("CalledProcessError", "ChildFailedError", "ProcessRaisedException", "ProcessExitedException")
"""Exceptions that only tell that another process has failed; its own is before them."""


_UNEXPLAINED: tuple[FailureCause, ...] = ("crash_in_repository", "crash_in_program", "other")
"""Where the last error says no more, what it came from may."""


def fault(result: Result) -> Finding | None:
    """Return why an execution failed; None where none did, or where nothing that it left says why."""
    execution, program = result.execution, result.program
    if execution is None or program is None:
        return None
    if execution.outcome in _OF_OUTCOMES:
        return Finding.of(_OF_OUTCOMES[execution.outcome], f"the execution's outcome: {execution.outcome}")
    if execution.outcome not in ("exited", "killed") or execution.status == 0:
        return None
    # A script may write Markdown; an answer that has some was not taken out of its fences.
    fence = answer.markdown(program.text)
    if fence and (result.form == "answer" or program.text.lstrip().startswith(fence.strip())):
        return Finding.of("syntax_error", fence, "E4")
    found = _of_output(execution, program.text)
    left = answer.placeholder(program.text, found.evidence if found else "")
    if left is None:
        return found
    # To bash `<name>` is a redirection, so that it complains of what follows.
    is_a_redirection = found is not None and found.cause == "syntax_error" and "<" in left.line
    if left.is_in_the_error or is_a_redirection or found is None or found.cause not in OF_THE_PROGRAM:
        return Finding.of("placeholder", left.line, "E2")
    return found


def _of_output(execution: Execution, program: str) -> Finding | None:
    """Return what the last error of an output says; standard output counts where standard error has none."""
    for stream in (execution.stderr, execution.stdout):
        last = None
        for error in _last_errors(lines(stream)):
            last = complaints.finding(error, program) if isinstance(error, str) else raised.finding(error, program)
            if last.cause not in _UNEXPLAINED:
                return last
        if last:
            return last
    return None


def _last_errors(output: list[str]) -> Iterator[RaisedException | str]:
    """Yield the last error of an output and those that it came from, the last first; complaints as their lines."""
    exception_at = dict(exceptions(output))
    for number in reversed(range(len(output))):
        line = output[number].strip()
        if error := exception_at.get(number):
            yield error
            if not error.chained and error.kind not in _WRAPPERS:
                return
        elif complaints.is_complaint(line):
            yield line
            return
