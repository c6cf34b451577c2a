"""Arena: runs hostile candidates beside each other, each on CPUs of its own, and looks at what they leave behind."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import Job, Slot
from ml_bench_metric.workers import allot
from tests.hostile.baits import Baits
from tests.hostile.case import SMALL, Case
from tests.hostile.places import Place, Trace

TEARDOWN_SECONDS = 1.0
"""What handing a sandbox over for removal may take."""

TRIES = 3
"""How often a case may run on a busy machine, until nothing held us up: an evaluation tries again too."""

_WORKERS = 2

# The folder with its contents, the places where anybody may write, and whether a module of the repository works.
CANARY = """
find . -mindepth 1 ! -name 'ml_bench_candidate*' ! -path '*/__pycache__*' -printf '%p %y %s %m %l\\n' | sort
find . -type f ! -name 'ml_bench_candidate*' ! -path '*/__pycache__/*' -print0 | sort -z | xargs -0 cat | cksum
find /tmp /dev/shm /var/tmp "$HOME" -user "$(id -u)" -name '*hostile*' 2>/dev/null
python -c 'import gan; print(gan.__name__, 2 ** 10)' || exit 1
echo x > hostile-canary && rm hostile-canary || exit 1
echo x > "/tmp/hostile-canary-$$" && rm "/tmp/hostile-canary-$$" || exit 1
"""


@dataclass(frozen=True)
class Report:
    """What became of a case, and of what came after it."""

    execution: Execution
    follower: Execution
    """Of a harmless candidate whose sandbox was there while the hostile one ran, and which ran right after it."""
    trace: Trace
    """What it occupied on the host."""
    touched: tuple[str, ...]
    """The baits that it reached."""


class Arena:
    """Runs cases in a place, each on a slot of its own, in the order in which they are given."""

    def __init__(self, place: Place, baits: Baits, cases: Sequence[Case]) -> None:
        """Run the canary, which must be well before anything hostile has been near it, and start on the cases."""
        self.place, self.baits = place, baits
        self.healthy = place.sandbox.prepare(self._canary()).run()
        workers = allot(_WORKERS, Limits.model_validate(SMALL), place.sandbox.capacity())
        self._slots = [(slot, threading.Lock()) for slot in workers.slots]
        # Twice as many threads as slots: one makes its sandboxes while another one's candidate runs.
        self._pool = ThreadPoolExecutor(2 * len(self._slots), thread_name_prefix="hostile")
        self._reports: dict[str, Future[Report]] = {
            case.name: self._pool.submit(self._run, case, number) for number, case in enumerate(cases)
        }

    def report(self, case: Case) -> Report:
        """Return what became of a case, when it is done."""
        return self._reports[case.name].result()

    def close(self) -> None:
        """Drop what has not begun, and wait for the rest."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, case: Case, number: int) -> Report:
        slot, free = self._slots[number % len(self._slots)]
        for _ in range(TRIES):
            report = self._attempt(case, slot, free)
            found = report.execution
            if found.outcome != "environment_error" and found.times.teardown < TEARDOWN_SECONDS:
                break
        return report

    def _attempt(self, case: Case, slot: Slot, free: threading.Lock) -> Report:
        sandbox = self.place.sandbox
        prepared = sandbox.prepare(self._job(case), slot)
        trace = self.place.trace(prepared)
        follower = sandbox.prepare(self._canary(), slot)
        with free:
            execution = prepared.run()
            return Report(execution, follower.run(), trace, tuple(self.baits.touched()))

    def _job(self, case: Case) -> Job:
        return Job(
            program=case.program,
            language=case.language,
            image=self.place.image,
            working_folder=self.place.folder,
            limits=case.chosen_limits(),
            variables=self.baits.variables(),
        )

    def _canary(self) -> Job:
        return Job(CANARY, "bash", self.place.image, self.place.folder, Limits.model_validate({**SMALL, "seconds": 60}))
