"""Each exit status and each signal that can end a candidate is told as what it is, in a container each."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Job
from tests.hostile.arena import TRIES
from tests.hostile.case import HANG_SECONDS, SMALL
from tests.hostile.places import Place

pytestmark = pytest.mark.docker

_IGNORED = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
_STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    """They neither compute nor wait, so that more of them than there are CPUs may run."""
    with ThreadPoolExecutor(8, thread_name_prefix="statuses") as opened:
        yield opened


def _run(place: Place, pool: ThreadPoolExecutor, programs: dict[int, str], seconds: float) -> dict[int, Execution]:
    limits = Limits.model_validate({**SMALL, "seconds": seconds})

    def one(program: str) -> Execution:
        for _ in range(TRIES):
            found = place.sandbox.prepare(Job(program, "bash", place.image, place.folder, limits), ANY_SLOT).run()
            if found.outcome != "environment_error":
                break
        return found

    return dict(zip(programs, pool.map(one, programs.values()), strict=True))


def test_each_exit_status_is_told(place: Place, pool: ThreadPoolExecutor) -> None:
    found = _run(place, pool, {status: f"exit {status}" for status in range(256)}, seconds=60)
    assert {status: one.status for status, one in found.items()} == {status: status for status in range(256)}
    # The engine tells a signal as 128 + its number: a program that returns such a status looks like a killed one.
    assert {status for status, one in found.items() if one.outcome == "killed"} == set(range(129, 193))
    assert {status for status, one in found.items() if one.outcome == "exited"} == {*range(129), *range(193, 256)}


def test_each_signal_is_told(place: Place, pool: ThreadPoolExecutor) -> None:
    numbers = sorted(signal.valid_signals() - _STOPPING)
    # Of sh, since bash itself ignores SIGQUIT.
    programs = {int(number): f"exec sh -c 'kill -{number:d} $$; exit 3'" for number in numbers}
    found = _run(place, pool, programs, seconds=60)
    told = {number: (one.outcome, one.status) for number, one in found.items()}
    assert told == {number: ("exited", 3) if number in _IGNORED else ("killed", 128 + number) for number in numbers}


def test_a_signal_that_stops_is_waited_for_until_the_limit(place: Place, pool: ThreadPoolExecutor) -> None:
    found = _run(place, pool, {number: f"kill -{number:d} $$; exit 3" for number in _STOPPING}, seconds=HANG_SECONDS)
    assert {one.outcome for one in found.values()} == {"still_running"}
