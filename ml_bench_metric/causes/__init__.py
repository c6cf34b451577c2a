"""Why a candidate failed: one cause of a closed list, found in what a result has stored. No model, nothing is run.

`find` looks at a result as a person would who asks what to mend first, and takes the first that holds:

1. **There is no answer**, or it is in the wrong language (`refusal_or_empty`, `wrong_language`): whatever its
   execution says follows from that. In bash each line of a Python program is an unknown command.
2. **Its execution failed by a fault of the program that can be named**: `syntax_error`, `placeholder`,
   `wrong_argument`, `argument_missing`, `missing_module`, `missing_attribute`, `undefined_name`, `missing_file`. The
   last error counts, since the exit status is that of the last command. A placeholder in the program comes first where
   the error names it, and after the others where it does not.
3. **Its static checks fail** (`argument_missing`, `wrong_language`): no execution could have made it pass.
4. **Its surroundings lack something**: `out_of_memory`, `disk_limit`, `output_limit`, `needs_gpu`, `needs_network`.
   After the program's own faults, so that what the machine lacks does not hide them.
5. **What is left**: `crash_in_repository`, `crash_in_program`, `waits` (still running without computing), `other`.

The paper's classes are given only where the evidence says so much by itself, see `Finding.paper_class`: a wrong class
is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ml_bench_metric.causes import answer, execution
from ml_bench_metric.causes.kinds import CAUSES, OF_THE_PROGRAM, PAPER_CLASSES, FailureCause, Finding, PaperClass
from ml_bench_metric.checks import Checks, Rule
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.verdicts import Verdict, verdict

__all__ = ["CAUSES", "PAPER_CLASSES", "FailureCause", "Finding", "PaperClass", "find"]


def find(result: Result) -> dict[Rule, Finding]:
    """Return why a candidate failed, for each rule under which it did. Never raises; equal results give equal findings.

    A candidate whose verdict is unknown has not failed.
    """
    verdicts = {rule: verdict(result, rule) for rule in RULES}
    # What does not depend on the rule, read at most once, and not at all for a candidate that passes.
    read_answer = cache(lambda: answer.fault(result))
    read_execution = cache(lambda: execution.fault(result))
    return {
        rule: _first(found, result, rule, read_answer, read_execution)
        for rule, found in verdicts.items()
        if found.passed is False
    }


def _first(
    found: Verdict,
    result: Result,
    rule: Rule,
    read_answer: Callable[[], Finding | None],
    read_execution: Callable[[], Finding | None],
) -> Finding:
    if fault := read_answer():
        return fault
    of_execution = read_execution()
    if of_execution and of_execution.cause in OF_THE_PROGRAM:
        return of_execution
    if fault := _of_checks(result.checks[rule], result.type):
        return fault
    if of_execution:
        return of_execution
    waits = result.execution is not None and result.execution.outcome == "still_running"
    return Finding.of("waits" if waits else "other", found.reason)


def _of_checks(checks: Checks, wanted: str) -> Finding | None:
    if not checks.arguments:
        # The instruction had the value, and the program does not use it.
        missing = ", ".join(checks.missing) or "not named"
        return Finding.of("argument_missing", f"not in the program: {missing}", "E3")
    if not checks.type:
        return Finding.of("wrong_language", f"the static check finds no {wanted}")
    return None
