"""Summary: from the results of a run to its numbers.

How the numbers are made (they are what people publish, so here is all of it):

- **Denominator.** Every task of the chosen split counts in every mean. A task without a prediction is 0 for every k,
  and is listed.
- **Tasks left out** (`excluded`) and repositories that were not chosen (`selection`) count nowhere. Such a set has a
  digest of its own, and its numbers are not those of the split.
- **n** of a task is the number of its candidates that were judged: all but those that are undecided and those that a
  run cut short never came to, which count neither for nor against the model. Undecided is a candidate with an
  environment error, unless its static checks fail: it can pass under no execution, so it is judged, and failed. As the
  checks differ between the rules, so does n.
- **c** of a task is the number of its candidates that pass.
- **Bounds.** `lower` is pass@k if every candidate that was not judged failed, `upper` if every one passed.
- **Value.** Unbiased: the estimate from n and c. Ordered: what the first k candidates say. In both, bounds that agree
  are the value, however few were judged: what is not known cannot change it.
- **A broken environment is no score of 0.** Where all that is known of a task are failed checks of candidates with
  environment errors, and another candidate is not judged, the unbiased estimate would be 0 for want of anything that
  could pass: such a task has no value, only bounds. Where all of its candidates fail the checks, 0 is the value.
- **Undefined.** A task that was given fewer than k candidates has no pass@k; then neither has any group that it belongs
  to: value and bounds are None, never 1. Where only candidates that were not judged leave a task without a value (n <
  k, one of them among the first k, or a broken environment), the group's value is None and its bounds stand. It is not
  averaged over the other tasks: that would be another, unnamed set of tasks, chosen by what failed.
- **Causes.** Every candidate that was judged and failed has one cause under a rule, found without a model in what its
  result has stored; `causes` says how. They are counted of the first execution of each candidate, so that together they
  make n - c. Tasks without a prediction have none. A cause is a help to see what a model does not master, and moves no
  score.
- **Ceilings.** `ceiling` is the share of the tasks whose reference passes the static checks. `executed_ceiling` is the
  share of those whose reference passes in every execution, among the tasks that were validated in the very image of the
  run, with its settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TypeVar, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ml_bench_metric.causes import CAUSES, PAPER_CLASSES, FailureCause, PaperClass, find
from ml_bench_metric.checks import Checks, Rule
from ml_bench_metric.pass_at_k import Estimator, Floats, bootstrap_interval, checked_ks, ordered, unbiased
from ml_bench_metric.results import RULES, JsonRecord, Result
from ml_bench_metric.sandbox.execution import Assets, Outcome, Record
from ml_bench_metric.tasks import Excluded, TaskSet
from ml_bench_metric.verdicts import verdict

OUTCOMES: tuple[str, ...] = (*get_args(Outcome), "no_program")
"""What `Group.outcomes` counts: the outcomes of executions, and answers without a program."""

ASSETS: tuple[Assets, ...] = get_args(Assets)
"""What `Group.assets` counts: the kinds of weights and data that images have."""

CONFIDENCE = 0.95
"""Confidence of the intervals: bootstrap over tasks, 10,000 resamples, seed 0."""

Name = TypeVar("Name", bound=str)

# What is known of one candidate under one rule.
_NOT_JUDGED, _FAILED, _PASSED, _FAILED_UNRUN = range(4)


class PassAtK(Record):
    """Pass@k of a group of tasks under one rule and one estimator, as shares from 0 to 1."""

    k: int
    value: float | None
    """Mean over all tasks of the group; None where a task of it has none."""
    lower: float | None
    """What it would be if every candidate that was not judged failed; None where k is larger than a task's list."""
    upper: float | None
    """What it would be if every candidate that was not judged passed."""
    interval: tuple[float, float] | None
    """95 % bootstrap interval of `value` over tasks; knows nothing of candidates that were not judged."""
    short_tasks: int
    """Tasks whose prediction has fewer than k candidates."""
    open_tasks: int
    """Tasks that have no value because of candidates that were not judged."""


class Score(Record):
    """The score of a group of tasks under one rule."""

    passed: int
    """c: candidates that pass."""
    undecided: int
    """Candidates with an environment error that might have passed; not among n."""
    pass_at_k: dict[Estimator, tuple[PassAtK, ...]]
    """One entry per k, ascending."""
    causes: dict[FailureCause, int] = Field(default_factory=dict)
    """Failed candidates by why they failed, in the order of the list; causes that none has are left out. Empty also in
    the summary of a version that did not know them."""
    paper_classes: dict[PaperClass, int] = Field(default_factory=dict)
    """Failed candidates by the paper's class of their error; the others are of none that could be told."""


class Group(Record):
    """The numbers of some tasks: all, those of a repository, or those of a type."""

    tasks: int
    missing: int
    """Tasks without a prediction; failures for every k."""
    expected: int
    """Candidates in the predictions."""
    candidates: int
    """n: candidates that were judged under the rule that leads, those with an environment error that fail its static
    checks among them. With `undecided` of that rule's score and `pending` it makes `expected`."""
    environment_errors: int
    """Candidates that the sandbox failed, whether undecided or not."""
    pending: int
    """Candidates that the run has not come to; not among n."""
    outcomes: dict[str, int]
    """Candidates by outcome; `no_program`: the answer held none, so nothing ran."""
    assets: dict[Assets, int]
    """Candidates that ran, by the weights and data that their image has; kinds without any are left out."""
    scores: dict[Rule, Score]


class Ceiling(Record):
    """What the references reach in the static checks: no score can be understood without it."""

    passed: int
    """Tasks whose reference passes the checks that a candidate must pass."""
    tasks: int
    share: float


class ExecutedCeiling(Record):
    """What the references reach when they are executed in the run's own images, under one rule.

    It comes from the stored validations of these images, see `validation`.
    """

    passed: int
    """Tasks whose reference passes whenever it is executed."""
    flaky: int
    """Tasks whose reference passes sometimes; not among `passed`."""
    tasks: int
    """Tasks that have a validation."""
    not_validated: int
    """The other tasks of the run."""
    share: float
    """`passed` of `tasks`."""


class TotalTimes(Record):
    """Sums over all executions, in seconds."""

    queue: float
    start: float
    run: float
    teardown: float
    cpu: float
    """CPU time of the candidates, as far as it is known."""
    cpu_unknown: int
    """Executions whose CPU time could not be read."""
    reused: int
    """Candidates whose execution was known from an identical one; its times are not in the sums."""


class Summary(JsonRecord):
    """The numbers of a run: its `summary.json`. Equal results in any order give equal bytes."""

    split: str
    origin: str
    """Where the tasks come from."""
    digest: str
    """Of the tasks, see `TaskSet.digest`."""
    selection: tuple[str, ...] = ()
    """The repositories that the tasks were cut down to; empty where those of all of the split count."""
    excluded: tuple[Excluded, ...] = ()
    """The tasks that were left out, by why they were; empty where none was."""
    rule: Rule
    """The rule that leads; numbers of both are here."""
    estimator: Estimator
    """The estimator that leads; numbers of both are here."""
    ks: tuple[int, ...]
    confidence: float = Field(default=CONFIDENCE)
    overall: Group
    repositories: dict[str, Group]
    types: dict[str, Group]
    ceiling: dict[Rule, Ceiling] | None
    """None where the references' checks were not given."""
    executed_ceiling: dict[Rule, ExecutedCeiling] | None = None
    """None where no image of the run has a validation with the run's settings; `validation` adds it."""
    checks_skipped: bool = False
    """Whether any candidate was executed on a machine that was not tried out before, because somebody wanted that."""
    missing: tuple[str, ...]
    """`task_id` of every task without a prediction."""
    environment_errors: dict[str, int]
    """`task_id` -> number of its candidates with an environment error, where there are any."""
    repeats: int
    """How often candidates were executed, at the most. Scores come from the first execution of each."""
    flaky: dict[Rule, dict[str, tuple[int, ...]]]
    """`task_id` -> the candidates whose executions do not agree in their verdict; tasks without any are left out."""
    times: TotalTimes

    def leading(self, group: Group) -> tuple[PassAtK, ...]:
        """Return a group's pass@k under the rule and the estimator that lead, one entry per k."""
        return group.scores[self.rule].pass_at_k[self.estimator]


def summarise(
    results: Iterable[Result],
    tasks: TaskSet,
    expected: Mapping[str, int],
    *,
    ks: Iterable[int] = (1, 2, 5),
    rule: Rule = "original",
    estimator: Estimator = "unbiased",
    reference_checks: Mapping[str, Mapping[Rule, Checks]] | None = None,
) -> Summary:
    """Return the numbers of a run. The module's docstring says how they are made.

    Results are taken one at a time and in any order; what is kept of each is three bytes, and of each task how often
    it had which outcome and cause.

    Args:
        results: at most one per execution of a candidate.
        tasks: all tasks that count.
        expected: `task_id` -> number of candidates in its prediction; a task that is not there, or has 0, is missing.
        ks: values of k.
        rule: which leads; both are computed.
        estimator: which leads; both are computed.
        reference_checks: `task_id` -> the checks of its reference, for the ceiling.

    Raises:
        ValueError: there is no task; a k is no whole number of at least 1; a result or a prediction is of a task that
            is not among them, is there twice, or is beyond the prediction's candidates; a reference's checks lack.
    """
    ks = checked_ks(ks)
    if not tasks.tasks:
        raise ValueError(f"split {tasks.split!r} of {tasks.origin} has no task: there is nothing to score")
    ledger = _Ledger(tasks, expected)
    for result in results:
        ledger.add(result)
    scores = {rule: _scores(ledger.known[rule], ks) for rule in RULES}
    every = np.arange(len(tasks.tasks))
    repository = np.array([task.repository for task in tasks.tasks])
    kind = np.array([task.type for task in tasks.tasks])
    errors = {
        task.task_id: found["environment_error"] for task, found in zip(tasks.tasks, ledger.outcomes, strict=True)
    }
    return Summary(
        split=tasks.split,
        origin=tasks.origin,
        digest=tasks.digest,
        selection=tasks.selection,
        excluded=tasks.excluded,
        rule=rule,
        estimator=estimator,
        ks=ks,
        overall=_group(ledger, scores, every, rule),
        repositories={name: _group(ledger, scores, every[repository == name], rule) for name in tasks.repositories},
        types={name: _group(ledger, scores, every[kind == name], rule) for name in dict.fromkeys(kind.tolist())},
        ceiling=_ceiling(tasks, reference_checks) if reference_checks is not None else None,
        missing=tuple(task.task_id for task in tasks.tasks if not expected.get(task.task_id)),
        environment_errors={task_id: count for task_id, count in errors.items() if count},
        repeats=ledger.repeats,
        flaky={rule: ledger.flaky(rule) for rule in RULES},
        times=ledger.times(),
    )


class _Ledger:
    """What is known so far: for each task a byte per candidate and rule, and counts."""

    def __init__(self, tasks: TaskSet, expected: Mapping[str, int]) -> None:
        self._index = {task.task_id: index for index, task in enumerate(tasks.tasks)}
        for task_id in expected:
            if task_id not in self._index:
                raise ValueError(f"there is a prediction for {task_id!r}, which is no task of split {tasks.split!r}")
        self.lengths = [expected.get(task.task_id, 0) for task in tasks.tasks]
        self.known = {rule: [bytearray(length) for length in self.lengths] for rule in RULES}
        self._seen = [bytearray(length) for length in self.lengths]
        self.outcomes: list[Counter[str]] = [Counter() for _ in tasks.tasks]
        self.assets: list[Counter[Assets]] = [Counter() for _ in tasks.tasks]
        self.causes: dict[Rule, list[Counter[FailureCause]]] = {
            rule: [Counter() for _ in tasks.tasks] for rule in RULES
        }
        self.paper_classes: dict[Rule, list[Counter[PaperClass]]] = {
            rule: [Counter() for _ in tasks.tasks] for rule in RULES
        }
        # Whole nanoseconds: unlike that of floats, their sum does not depend on the order.
        self._nanoseconds: Counter[str] = Counter()
        self._cpu_unknown = self._reused = 0
        self.repeats = 1
        self._repeated: set[tuple[int, int, int]] = set()
        self._verdicts: dict[Rule, dict[tuple[int, int], set[bool]]] = {rule: {} for rule in RULES}
        """Of the candidates that were executed more than once, the verdicts beyond the first."""

    def add(self, result: Result) -> None:
        index = self._index.get(result.task_id)
        if index is None:
            raise ValueError(f"there is a result for {result.task_id!r}, which is none of the tasks")
        name = f"candidate {result.candidate} of task {result.task_id}"
        if result.candidate >= self.lengths[index]:
            raise ValueError(f"there is a result for {name}, whose prediction has {self.lengths[index]} of them")
        if result.repeat:
            self._add_repeat(result, index, name)
            return
        if self._seen[index][result.candidate]:
            raise ValueError(f"there are two results for {name}")
        self._seen[index][result.candidate] = 1
        outcome = result.execution.outcome if result.execution else "no_program"
        self.outcomes[index][outcome] += 1
        if result.execution and outcome != "environment_error":
            self.assets[index][result.execution.assets] += 1
        for rule in RULES:
            self.known[rule][index][result.candidate] = _what_is_known(result, rule)
        for rule, finding in find(result).items():
            self.causes[rule][index][finding.cause] += 1
            if finding.paper_class is not None:
                self.paper_classes[rule][index][finding.paper_class] += 1
        self._add_times(result)

    def _add_repeat(self, result: Result, index: int, name: str) -> None:
        execution = (index, result.candidate, result.repeat)
        if execution in self._repeated:
            raise ValueError(f"there are two results for execution {result.repeat} of {name}")
        self._repeated.add(execution)
        self.repeats = max(self.repeats, result.repeat + 1)
        for rule in RULES:
            passed = verdict(result, rule).passed
            if passed is not None:
                self._verdicts[rule].setdefault((index, result.candidate), set()).add(passed)
        self._add_times(result)

    def flaky(self, rule: Rule) -> dict[str, tuple[int, ...]]:
        """Return `task_id` -> the candidates whose executions disagree under a rule, in the order of the tasks."""
        found: dict[str, list[int]] = {}
        task_ids = list(self._index)
        for (index, candidate), verdicts in sorted(self._verdicts[rule].items()):
            first = _AS_VERDICT[self.known[rule][index][candidate]]
            if len(verdicts | ({first} - {None})) > 1:
                found.setdefault(task_ids[index], []).append(candidate)
        return {task_id: tuple(candidates) for task_id, candidates in found.items()}

    def _add_times(self, result: Result) -> None:
        if result.execution is None:
            return
        if result.reused:
            self._reused += 1
            return
        times, cpu = result.execution.times, result.execution.cpu_seconds
        for phase in ("queue", "start", "run", "teardown"):
            self._nanoseconds[phase] += round(getattr(times, phase) * 1e9)
        if cpu is None:
            self._cpu_unknown += 1
        else:
            self._nanoseconds["cpu"] += round(cpu * 1e9)

    def times(self) -> TotalTimes:
        sums = {phase: self._nanoseconds[phase] / 1e9 for phase in ("queue", "start", "run", "teardown", "cpu")}
        return TotalTimes(**sums, cpu_unknown=self._cpu_unknown, reused=self._reused)


def _what_is_known(result: Result, rule: Rule) -> int:
    passed = verdict(result, rule).passed
    if passed is None:
        return _NOT_JUDGED
    if result.execution is not None and result.execution.outcome == "environment_error":
        return _FAILED_UNRUN
    return _PASSED if passed else _FAILED


@dataclass(frozen=True)
class _PerTask:
    """Pass@k of every task for one k and one estimator; each array has shape (tasks,), NaN where undefined."""

    value: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class _RuleScores:
    passed: npt.NDArray[np.int64]
    not_judged: npt.NDArray[np.int64]
    """Per task: undecided or pending."""
    per_task: dict[Estimator, dict[int, _PerTask]]


def _scores(known: Sequence[bytearray], ks: Sequence[int]) -> _RuleScores:
    counts = np.array([[task.count(state) for state in range(4)] for task in known], dtype=np.int64)
    not_judged, passed = counts[:, _NOT_JUDGED], counts[:, _PASSED]
    given = counts.sum(axis=1)
    environment_is_broken = (not_judged > 0) & (counts[:, _FAILED] + passed == 0)
    n = np.where(environment_is_broken, 0, given - not_judged)
    verdicts = [[_AS_VERDICT[state] for state in task] for task in known]
    per_task: dict[Estimator, dict[int, _PerTask]] = {"unbiased": {}, "ordered": {}}
    for k in ks:
        lower, upper = unbiased(given, passed, k), unbiased(given, passed + not_judged, k)
        estimate = np.clip(unbiased(n, passed, k), lower, upper)  # only rounding leads out of the bounds
        per_task["unbiased"][k] = _of_tasks(estimate, lower, upper, given)
        lower, upper = (
            ordered([[decided if v is None else v for v in task] for task in verdicts], k) for decided in (False, True)
        )
        per_task["ordered"][k] = _of_tasks(ordered(verdicts, k), lower, upper, given)
    return _RuleScores(passed=passed, not_judged=not_judged, per_task=per_task)


_AS_VERDICT = {_NOT_JUDGED: None, _FAILED: False, _PASSED: True, _FAILED_UNRUN: False}


def _of_tasks(value: Floats, lower: Floats, upper: Floats, given: npt.NDArray[np.int64]) -> _PerTask:
    missing = given == 0
    value = np.where(lower == upper, lower, value)
    return _PerTask(*(np.where(missing, 0.0, array) for array in (value, lower, upper)))


def _group(ledger: _Ledger, scores: Mapping[Rule, _RuleScores], members: npt.NDArray[np.intp], leading: Rule) -> Group:
    lengths = [ledger.lengths[index] for index in members]
    outcomes, assets = _sum(ledger.outcomes, members), _sum(ledger.assets, members)
    causes = {rule: _sum(ledger.causes[rule], members) for rule in RULES}
    paper_classes = {rule: _sum(ledger.paper_classes[rule], members) for rule in RULES}
    pending = sum(lengths) - outcomes.total()
    return Group(
        tasks=len(members),
        missing=lengths.count(0),
        expected=sum(lengths),
        candidates=sum(lengths) - int(scores[leading].not_judged[members].sum()),
        environment_errors=outcomes["environment_error"],
        pending=pending,
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES},
        assets={kind: assets[kind] for kind in ASSETS if assets[kind]},
        scores={
            rule: Score(
                passed=int(of_rule.passed[members].sum()),
                undecided=int(of_rule.not_judged[members].sum()) - pending,
                pass_at_k={
                    estimator: tuple(_mean(k, per_task, members) for k, per_task in per_k.items())
                    for estimator, per_k in of_rule.per_task.items()
                },
                causes={cause: causes[rule][cause] for cause in CAUSES if causes[rule][cause]},
                paper_classes={name: paper_classes[rule][name] for name in PAPER_CLASSES if paper_classes[rule][name]},
            )
            for rule, of_rule in scores.items()
        },
    )


def _sum(counts: Sequence[Counter[Name]], members: npt.NDArray[np.intp]) -> Counter[Name]:
    total: Counter[Name] = Counter()
    for index in members:
        total.update(counts[index])
    return total


def _mean(k: int, per_task: _PerTask, members: npt.NDArray[np.intp]) -> PassAtK:
    value, lower, upper = (array[members] for array in (per_task.value, per_task.lower, per_task.upper))
    short = int(np.isnan(lower).sum())
    undefined = int(np.isnan(value).sum())
    return PassAtK(
        k=k,
        value=None if undefined else _exact_mean(value),
        lower=None if short else _exact_mean(lower),
        upper=None if short else _exact_mean(upper),
        interval=None if undefined else bootstrap_interval(value, confidence=CONFIDENCE),
        short_tasks=short,
        open_tasks=undefined - short,
    )


def _exact_mean(values: Floats) -> float:
    # Rounded once, at the end: it depends on no order, equal values give that value, and it stays within its bounds.
    numbers: list[float] = values.tolist()
    return mean(numbers)


def _ceiling(tasks: TaskSet, checks: Mapping[str, Mapping[Rule, Checks]]) -> dict[Rule, Ceiling]:
    for task in tasks.tasks:
        if any(rule not in checks.get(task.task_id, {}) for rule in RULES):
            raise ValueError(f"the checks of the reference of task {task.task_id} are not given under every rule")
    count = len(tasks.tasks)
    passed = {rule: sum(checks[task.task_id][rule].both for task in tasks.tasks) for rule in RULES}
    return {rule: Ceiling(passed=passed[rule], tasks=count, share=passed[rule] / count) for rule in RULES}


class RunningScore:
    """Pass@1 of what is known so far, for a progress bar: it moves while a run goes on, and is no score to publish."""

    def __init__(self, rule: Rule) -> None:
        """Start with nothing known under a rule."""
        self._rule = rule
        self._counts: dict[str, tuple[int, int]] = {}
        self._sum = 0.0

    def add(self, result: Result) -> float | None:
        """Take one more result, and return the mean of c / n over the tasks with a judged candidate; None before any.

        Tasks without a prediction, and candidates with an environment error, are not in it.
        """
        execution = result.execution
        if execution is None or execution.outcome != "environment_error":
            n, c = self._counts.get(result.task_id, (0, 0))
            passed = bool(verdict(result, self._rule).passed)
            self._counts[result.task_id] = (n + 1, c + passed)
            self._sum += (c + passed) / (n + 1) - (c / n if n else 0.0)
        return self._sum / len(self._counts) if self._counts else None
