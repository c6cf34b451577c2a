"""Whether a machine can be trusted with verdicts: each promise of the sandbox tried out, here and now.

A limit that is asked for and not enforced looks like one that is, until a candidate meets it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.printable import printable
from ml_bench_metric.results import RULES
from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import GIB, MIB, Limits
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Job, Sandbox, SandboxError, Slot
from ml_bench_metric.tasks import load_tasks
from ml_bench_metric.verdicts import verdict
from ml_bench_metric.workers import Workers

State = Literal["ok", "warning", "fault"]

ENOUGH_DISK_BYTES = 10 * GIB
"""Free space below which images and candidates may meet a full disk."""

TEARDOWN_SECONDS = 1.0
"""How long handing a sandbox over for removal may take."""


@dataclass(frozen=True)
class Finding:
    """What was found out about one thing."""

    name: str
    state: State
    detail: str
    remedy: str = ""
    """What to do about it; empty where all is well."""


@dataclass(frozen=True)
class Patient:
    """What is examined."""

    sandbox: Sandbox
    image: str
    """In which the trials run: any image of an environment."""
    repositories: tuple[str, ...]
    """That the image serves."""
    info: dict[str, Any]
    """What the engine says of itself; empty for a sandbox without an engine."""
    job: Job | None = None
    """Of a candidate: the quick trials run as it would, in its folder, as its user and with its limits."""
    slot: Slot = ANY_SLOT
    """What the trials own."""


@dataclass(frozen=True)
class _Trial:
    """A program, and what must become of it."""

    name: str
    program: str
    limits: Limits
    is_right: Callable[[Execution], bool]
    remedy: str


def _exits_with(status: int) -> Callable[[Execution], bool]:
    return lambda found: (found.outcome, found.status) == ("exited", status)


_BUILD_SAMPLE = "`ml-bench images build sample` makes it"
_PLAIN = Limits(seconds=60.0, memory_bytes=256 * MIB, processes=64)
_CGROUPS = (
    "the kernel must offer this cgroup controller to the engine: `docker info` lists what is missing; boot with "
    "cgroup_enable=memory, or let systemd delegate the controllers"
)

_THREADS = """exec python3 -c '
import sys, threading
forever = threading.Event()
for number in range(200):
    try:
        threading.Thread(target=forever.wait, daemon=True).start()
    except RuntimeError:
        sys.exit(0 if number < 64 else 2)
sys.exit(3)
'"""

QUICK: tuple[_Trial, ...] = (
    _Trial(
        "a program runs, and its exit status is told",
        "exit 7",
        _PLAIN,
        _exits_with(7),
        "`docker run --rm IMAGE true` must work for this user; restart the engine, or build the image again",
    ),
    _Trial(
        "CPU time and memory are told",
        # It ends a little later than its work: what is read last may be older than the end of a program.
        "for i in $(seq 100000); do :; done; sleep 0.3",
        _PLAIN,
        lambda found: bool(found.cpu_seconds) and bool(found.peak_memory_bytes),
        "the cgroup files of containers must be readable here: run on the engine's own machine, as a user who may read "
        "/sys/fs/cgroup; without them the strict rule cannot tell training from waiting",
    ),
)
"""They take about a second."""

FULL: tuple[_Trial, ...] = (
    _Trial(
        "a sleeper is ended at the time limit",
        "sleep 60",
        _PLAIN.model_copy(update={"seconds": 1.0}),
        lambda found: found.outcome == "still_running" and found.times.run < 5.0,
        "this process or the engine is held up for seconds: find out what else the machine does",
    ),
    _Trial(
        "a process that ignores SIGTERM is ended too",
        "trap '' TERM INT HUP; while :; do sleep 1; done",
        _PLAIN.model_copy(update={"seconds": 1.0}),
        lambda found: found.outcome == "still_running" and found.times.run < 5.0,
        "the engine does not kill containers: restart it",
    ),
    _Trial(
        "the memory limit holds",
        "head -c 1000000000 /dev/zero | tail -c 1000000000 > /dev/null; exit ${PIPESTATUS[1]}",
        _PLAIN,
        lambda found: found.outcome == "out_of_memory",
        f"memory is not limited: {_CGROUPS}",
    ),
    _Trial(
        "memory files count as memory",
        "head -c 1000000000 /dev/zero > /dev/shm/x",
        _PLAIN.model_copy(update={"shm_bytes": 64 * MIB}),
        lambda found: found.outcome in ("exited", "out_of_memory") and found.status != 0,
        f"/dev/shm is not limited: {_CGROUPS}",
    ),
    _Trial(
        "the limit on processes holds",
        _THREADS,
        _PLAIN,
        _exits_with(0),
        f"processes are not limited: {_CGROUPS} (pids)",
    ),
    _Trial(
        "the limit on output holds",
        "yes",
        _PLAIN.model_copy(update={"output_bytes": 4 * MIB}),
        lambda found: found.outcome == "output_limit" and found.stdout.truncated,
        "output is not limited, which is a fault of this package: please report it",
    ),
    _Trial(
        "the limit on disk space holds",
        'i=0; while head -c 8000000 /dev/zero > "f$i"; do i=$((i + 1)); sleep 0.05; done; exit 1',
        _PLAIN.model_copy(update={"disk_bytes": 64 * MIB}),
        lambda found: found.outcome == "disk_full",
        "the engine does not tell how much a container has written: its storage driver must be overlay2",
    ),
    _Trial(
        "the size of /tmp is limited",
        "head -c 100000000 /dev/zero > /tmp/x && exit 0; exit 9",
        _PLAIN.model_copy(update={"tmp_bytes": 16 * MIB}),
        _exits_with(9),
        "the engine does not mount memory file systems with a size; use a current one",
    ),
    _Trial(
        "there is no network",
        "test -z \"$(ls /sys/class/net | grep -v '^lo$')\" && ! (: > /dev/tcp/169.254.169.254/80) 2>/dev/null",
        _PLAIN,
        _exits_with(0),
        "containers have a network in spite of --network none: look at the engine's plugins and runtime",
    ),
    _Trial(
        "a candidate is nobody special",
        'test "$(id -u)" != 0 && grep -q "^CapEff:[[:space:]]*0*$" /proc/self/status && '
        'grep -q "^NoNewPrivs:[[:space:]]*1" /proc/self/status',
        _PLAIN,
        _exits_with(0),
        "capabilities are not dropped: look at the engine's default runtime and security options",
    ),
    _Trial(
        "the next candidate does not see what this one leaves",
        "touch ml-bench-doctor-was-here",
        _PLAIN,
        _exits_with(0),
        "a candidate cannot write into its own folder: build the image again",
    ),
    _Trial(
        "(the same, afterwards)",
        "test ! -e ml-bench-doctor-was-here",
        _PLAIN,
        _exits_with(0),
        "candidates see each other's files: do not use this engine",
    ),
)
"""Made by `ml-bench doctor`, after the quick ones."""


def quick(patient: Patient) -> Iterator[Finding]:
    """Yield what is found in about a second: the engine's facts, and whether a program runs and is measured."""
    yield from _facts(patient)
    for trial in QUICK:
        yield _tried(trial, patient, patient.job)


def full(patient: Patient) -> Iterator[Finding]:
    """Yield what is found in half a minute: whether every limit and promise holds, and whether judging tells good from
    bad: a reference of the sample passes under both rules in its image, and the empty candidate fails.

    Raises:
        SandboxError: the engine does not answer any more.
    """
    for trial in FULL:
        yield _tried(trial, patient)
    yield _judged(patient)


def require_healthy(findings: Iterable[Finding], way_round: str) -> None:
    """Look whether anything found forbids to score.

    Args:
        findings: all of them.
        way_round: what a person writes to score all the same.

    Raises:
        SandboxError: there is a fault; the message lists each with what to do about it.
    """
    faults = [finding for finding in findings if finding.state == "fault"]
    if faults:
        lines = (f"  {one.name}: {printable(one.detail)}\n    {printable(one.remedy)}" for one in faults)
        raise SandboxError(
            "nothing is scored on this machine as it is, since verdicts could not be trusted:\n"
            + "\n".join(lines)
            + f"\n{way_round} scores all the same, and the scores say so"
        )


def _judged(patient: Patient) -> Finding:
    task = load_tasks("sample", "L").tasks[0]
    name = f"the reference of {task.task_id} passes, and the empty candidate fails"
    if task.repository not in patient.repositories:
        return Finding(name, "warning", f"{patient.image} is not the sample's image", _BUILD_SAMPLE)
    evaluation = Evaluation(
        patient.sandbox, Settings(extract="none"), lambda _: TaskImage(patient.image), Workers((ANY_SLOT,), "")
    )
    results = evaluation.run([Candidate(task, 0, task.output), Candidate(task, 1, "")])
    passed = {result.candidate: [verdict(result, rule).passed for rule in RULES] for result in results}
    if passed == {0: [True, True], 1: [False, False]}:
        return Finding(name, "ok", "under both rules")
    return Finding(name, "fault", f"it is otherwise: {passed}", f"{_BUILD_SAMPLE}; if that does not help, report it")


def _facts(patient: Patient) -> Iterator[Finding]:
    capacity = patient.sandbox.capacity()
    yield Finding("engine", "ok", capacity.description)
    info = patient.info
    missing = [
        name
        for name, key in (("memory limits", "MemoryLimit"), ("CPU sets", "CPUSet"), ("process limits", "PidsLimit"))
        if info.get(key) is False
    ]
    if missing:
        yield Finding("cgroup controllers", "fault", f"the engine has no {', '.join(missing)}", _CGROUPS)
    driver = info.get("Driver")
    if driver not in (None, "overlay2", "overlayfs"):
        yield Finding(
            "storage driver",
            "warning",
            f"{driver}: making a container may be slow",
            "let the engine use overlay2 (its folder must not lie on another overlay)",
        )
    memory, wanted = capacity.memory_bytes, (patient.job.limits if patient.job else Limits()).memory_bytes
    if memory < wanted:
        yield Finding(
            "memory",
            "warning",
            f"{memory / GIB:.1f} GiB, less than the {wanted / GIB:.0f} GiB that a candidate may use",
            "give --limit-memory, and say so with the scores",
        )
    else:
        yield Finding("memory", "ok", f"{memory / GIB:.1f} GiB")
    root = Path(str(info.get("DockerRootDir", "/")))
    if not capacity.place and root.exists():
        free = shutil.disk_usage(root).free
        low = free < ENOUGH_DISK_BYTES
        yield Finding(
            "disk",
            "warning" if low else "ok",
            f"{free / GIB:.1f} GiB free in {root}",
            "make room: `ml-bench images prune`, `docker system df`" if low else "",
        )


def _tried(trial: _Trial, patient: Patient, like: Job | None = None) -> Finding:
    """Return what became of a trial; `like` is whose image, folder, user and limits it has."""
    if like is None:
        like, limits = Job("", "bash", patient.image, "/workspace", trial.limits), trial.limits
    else:
        limits = like.limits.model_copy(update={"seconds": trial.limits.seconds})
    # Without what the task's image has for /tmp, and what the candidate brings along: that can be large.
    job = replace(
        like, program=trial.program, language="bash", limits=limits, tmp_folder="", overlay=None, form="answer"
    )
    try:
        found = patient.sandbox.prepare(job, patient.slot).run()
    except SandboxError as error:
        return Finding(trial.name, "fault", str(error), trial.remedy)
    if found.outcome == "environment_error":
        return Finding(trial.name, "fault", found.reason, trial.remedy)
    if not trial.is_right(found):
        status = "" if found.status is None else f" with status {found.status}"
        said = (found.stderr.tail or found.stderr.head).strip().splitlines()
        detail = f"it ended otherwise: {found.outcome.replace('_', ' ')}{status} after {found.times.run:.1f} s"
        return Finding(trial.name, "fault", detail + (f" ({said[-1]})" if said else ""), trial.remedy)
    if found.times.teardown > TEARDOWN_SECONDS:
        return Finding(
            trial.name, "warning", f"removing it took {found.times.teardown:.1f} s", "the engine is slow: see its log"
        )
    return Finding(trial.name, "ok", f"{found.times.run:.2f} s")
