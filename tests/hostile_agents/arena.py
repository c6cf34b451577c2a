"""Arena: lets a hostile agent work, judges what it has left, and looks at what it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox.docker_engine import OWNER_LABEL, list_containers, owner
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Slot
from ml_bench_metric.tasks import Task, load_tasks
from ml_bench_metric.workers import allot
from ml_bench_solvers.agents.attempts import Attempt, AttemptFolder
from ml_bench_solvers.agents.budget import Budget, Meter, Purse
from ml_bench_solvers.agents.changes import ChangeLimits
from ml_bench_solvers.agents.docker_workspace import DockerWorkspace, Site
from ml_bench_solvers.agents.running import AgentRun, Manner, Work
from ml_bench_solvers.agents.trajectory import FILE, Trajectory, read_steps
from ml_bench_solvers.agents.workspace import Start, Workspace
from tests.hostile.baits import Baits
from tests.hostile.case import PASSES
from tests.hostile_agents.case import TASK, Case

LIMITS = Limits(
    memory_bytes=512 * MIB,
    processes=64,
    tmp_bytes=32 * MIB,
    shm_bytes=16 * MIB,
    disk_bytes=64 * MIB,
    output_bytes=4 * MIB,
    kept_bytes=16 * 1024,
)

CANARY = """
find . -mindepth 1 ! -path '*/__pycache__*' ! -path './outputs*' -printf '%p %y %s %l\\n' | sort | cksum
find /tmp /dev/shm /var/tmp "$HOME" /workspace -name '*hostile*' -o -name tiny-next -o -name '*daemon*' 2>/dev/null
cksum < /workspace/tiny-forecast/run.py
python -c 'import gan, numpy; print(gan.__name__, 2 ** 10)'
"""


@dataclass
class Canary:
    """A harmless agent that looks around."""

    name: str = "canary"
    seen: list[str] = field(default_factory=list)

    def solve(self, task: Task, workspace: Workspace) -> None:
        """Keep what the canary prints."""
        self.seen.append(workspace.exec(CANARY).output)


@dataclass(frozen=True)
class Report:
    """What became of a case."""

    attempt: Attempt
    output: str
    """What its commands have written, together."""
    result: Result
    seen: str
    """By a harmless agent that came after it."""
    touched: tuple[str, ...]
    """The baits that it reached."""
    left: tuple[str, ...]
    """Containers that are still there."""


class Arena:
    """Runs cases one after the other."""

    def __init__(
        self, sandbox: DockerSandbox, image: str, folder: Path, baits: Baits, start: Start = "prepared"
    ) -> None:
        """Let the canary look around, and an honest agent work, before anything hostile has been near."""
        self._sandbox, self._folder, self.baits, self._start = sandbox, folder, baits, start
        self._image = TaskImage(digest=sandbox.image_digest(image))
        self._task = load_tasks("sample", "A").by_id[TASK]
        self._number = 0
        self.healthy = self._look()
        # What the sandbox itself makes for the first of its candidates, and keeps, is there from then on.
        self.honest = self.report(Case("honest", (), self._task.output, PASSES))

    def report(self, case: Case) -> Report:
        """Let a case work, and what comes after it."""
        before = self.containers()
        attempt, folder = self._let_work(case)
        steps = list(read_steps(folder.path / FILE))
        output = "\n".join(step.get("output", "") for step in steps if step["kind"] == "command")
        result = self._judged(case, attempt, folder)
        left = tuple(self.containers() - before)
        return Report(attempt, output, result, self._look(), tuple(self.baits.touched()), left)

    def _let_work(self, agent: Case | Canary) -> tuple[Attempt, AttemptFolder]:
        self._number += 1
        run = self._folder / str(self._number)
        budget = Budget(max_turns=None, max_seconds=60.0)
        manner = Manner(start=self._start, budget=budget)
        agents = AgentRun(agent, run, self._open, manner, Purse(None), (ANY_SLOT,))
        (attempt,) = agents.go([Work(self._task)])
        return attempt, AttemptFolder(run, TASK, 0)

    def _open(self, task: Task, meter: Meter, trajectory: Trajectory, slot: Slot) -> DockerWorkspace:
        changes = ChangeLimits(bytes=16 * MIB, files=1000)
        site = Site(start=self._start, limits=LIMITS, changes=changes, variables=self.baits.variables(), seconds=60.0)
        return DockerWorkspace(self._sandbox, task, self._image, site, meter, trajectory, slot)

    def _judged(self, case: Case, attempt: Attempt, folder: AttemptFolder) -> Result:
        script = folder.script() or ""
        candidate = Candidate(
            self._task, 0, script, form="run.sh", overlay=attempt.changes.overlay(folder.archive) if script else None
        )
        workers = allot(1, LIMITS, self._sandbox.capacity())
        settings = Settings(seconds=case.limit, limits=LIMITS)
        (result,) = Evaluation(self._sandbox, settings, lambda task: self._image, workers).run([candidate])
        return result

    def _look(self) -> str:
        canary = Canary()
        self._let_work(canary)
        return canary.seen[0]

    def containers(self) -> set[str]:
        """Return this process's containers: the engine may have other users."""
        records = list_containers(self._sandbox.client)
        return {str(record["Id"]) for record in records if record["Labels"].get(OWNER_LABEL) == owner()}
