"""Verdicts: what a candidate's checks and execution mean under a rule. Computed, never stored: old runs can be judged
anew."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from ml_bench_metric.checks import Checks, Rule
from ml_bench_metric.printable import printable
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox.execution import Execution

STRICT_CPU_SHARE = 0.5
"""Under the strict rule a candidate that is still running passes from this share of its time limit on, as CPU time."""

_LONGEST_DETAIL = 300


@dataclass(frozen=True)
class Verdict:
    """Whether a candidate passes under a rule, and why."""

    passed: bool | None
    """None: unknown, because the sandbox failed; that counts neither for nor against the candidate."""
    reason: str
    """One line of plain English."""


def verdict(result: Result, rule: Rule) -> Verdict:
    """Return the verdict on a candidate under a rule.

    A candidate passes when its static checks of that rule do (arguments and type), and its execution does:

    - `original`, the paper's: exit status 0, or still running at the time limit.
    - `strict`: exit status 0, or still running having used CPU time of at least half of the time limit, so that a
      sleep or a hang does not pass as training. One of its threads having been ready to run for as long does too: that
      a busy machine had no CPU for it does not turn training into a wait. Where the CPU time is unknown it does not
      pass.

    A `run.sh` is bash whatever the task asks for, and under `original` no argument is looked for; `checks.check_script`
    says where they are looked for under `strict`.

    An answer without a program fails. An `environment_error` leaves the verdict unknown (`passed` is None), except
    where the static checks fail: no execution could have made that candidate pass. Of a `run.sh` one could: what it
    starts may use what its text does not.
    """
    execution = result.execution
    if execution is None:
        return Verdict(False, f"no program in the answer ({_detail(result.extraction)})")
    checks = result.checks[rule]
    may_use_more = result.form == "run.sh" and execution.outcome == "environment_error"
    if not checks.both and not may_use_more:
        reason = _failed_checks(checks, result.type)
        if execution.outcome == "environment_error":
            reason += "; an environment error kept it from running, which cannot change that"
        return Verdict(False, reason)
    return _of_execution(execution, rule, result.limit_seconds)


def _failed_checks(checks: Checks, wanted: str) -> str:
    reasons = []
    if not checks.arguments:
        reasons.append("arguments missing" + (": " + _detail(", ".join(checks.missing)) if checks.missing else ""))
    if not checks.type:
        reasons.append(f"not of the type that the task asks for ({wanted})")
    return "; ".join(reasons)


def _of_execution(execution: Execution, rule: Rule, limit: float) -> Verdict:
    outcome, status = execution.outcome, execution.status
    if outcome == "environment_error":
        return Verdict(None, f"environment error: {_detail(execution.reason) or 'no reason was recorded'}")
    if outcome == "exited":
        return Verdict(status == 0, "exit status unknown" if status is None else f"exit status {status}")
    if outcome == "still_running":
        if rule == "original":
            return Verdict(True, f"still running at the limit of {limit:g} s, which passes under this rule")
        return _of_strict_limit(execution.cpu_seconds, execution.ready_seconds or 0.0, limit)
    if outcome == "killed":
        return Verdict(False, f"killed by {_signal_name(status)}")
    if outcome == "out_of_memory":
        return Verdict(False, "out of memory: the kernel killed it at the memory limit")
    if outcome == "output_limit":
        written = execution.stdout.bytes + execution.stderr.bytes
        return Verdict(False, f"stopped at the output limit, after {written:,} bytes")
    return Verdict(False, "stopped at the disk limit")


def _of_strict_limit(cpu: float | None, ready: float, limit: float) -> Verdict:
    if cpu is None:
        return Verdict(
            False,
            f"still running at the limit of {limit:g} s, but its CPU time is unknown: "
            f"{STRICT_CPU_SHARE * limit:g} s of it are needed to pass",
        )
    used = f"used {cpu:.2f} s CPU of {limit:g} s"
    if cpu >= STRICT_CPU_SHARE * limit:
        return Verdict(True, f"still running at the limit, having {used}")
    if ready >= STRICT_CPU_SHARE * limit:
        return Verdict(
            True, f"still running at the limit, having {used}; ready to run for {ready:.2f} s, on a busy machine"
        )
    return Verdict(False, f"still running at the limit, but {used}: a wait, not a computation")


def _signal_name(status: int | None) -> str:
    try:
        return signal.Signals((status or 0) - 128).name
    except ValueError:
        return "a signal"


def _detail(text: str) -> str:
    line = printable(text.strip())
    return line if len(line) <= _LONGEST_DETAIL else line[:_LONGEST_DETAIL] + "…"
