"""Each hostile candidate gets the outcome and the verdicts that it must get, and leaves nothing behind."""

from __future__ import annotations

from collections import Counter

import pytest

from ml_bench_metric.checks import check
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.tasks import load_tasks
from ml_bench_metric.verdicts import verdict
from tests.hostile.arena import TEARDOWN_SECONDS, Arena
from tests.hostile.case import KINDS, Case
from tests.hostile.catalogue import CASES
from tests.hostile.places import Place
from tests.result_builders import GOOD, result

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_candidate_gets_what_it_must_get_and_leaves_nothing(case: Case, arena: Arena, place: Place) -> None:
    difference = place.differences.get(case.name)
    if difference and difference.ending is None:
        pytest.skip(f"{place.sandbox.kind} cannot stop it: {difference.why}")
    wanted = difference.ending if difference and difference.ending else case.ending
    report = arena.report(case)
    execution, limits = report.execution, case.chosen_limits()
    said = f"\n{execution!r}"
    assert (execution.outcome, execution.status) == (wanted.outcome, wanted.status), said
    judged = _judged(case, report.execution)
    assert tuple(verdict(judged, rule).passed for rule in RULES) == wanted.passes, said
    assert difference or case.also(execution), said
    # A limit that is noticed more than a second late is an environment error; then the last facts are read.
    assert execution.times.run < limits.seconds + 5, said
    assert execution.times.teardown < TEARDOWN_SECONDS, said
    assert report.trace.left() == [], "it left something behind"
    assert difference or report.touched == (), "it reached something of the host"
    for stream in (execution.stdout, execution.stderr):
        assert difference or arena.baits.secret not in stream.head + stream.tail, "it read a secret of the host"
        # Half of it per end, a replaced byte is three.
        assert len(stream.head) + len(stream.tail) <= limits.kept_bytes, "more output than is wanted is kept"
    follower = report.follower
    assert (follower.outcome, follower.status) == ("exited", 0), f"the next candidate was harmed: {follower!r}"
    assert follower.stdout == arena.healthy.stdout, "the next candidate saw what this one did"


def _judged(case: Case, execution: object) -> Result:
    """Return the case's result, as it comes back from the disk."""
    checks = dict.fromkeys(RULES, GOOD)
    if case.reference:
        task = load_tasks("sample", "L").by_id[case.reference]
        checks = {rule: check(case.program, task, rule) for rule in RULES}
    fields = {"execution": execution, "limit_seconds": case.chosen_limits().seconds, "text": case.program}
    written = result(**fields, original=checks["original"], strict=checks["strict"])  # type: ignore[arg-type]
    read = Result.from_json(written.to_json())
    assert read == written
    return read


def test_the_canary_is_well_before_anything_hostile_ran(arena: Arena) -> None:
    assert (arena.healthy.outcome, arena.healthy.status) == ("exited", 0), repr(arena.healthy)
    assert "hostile" not in arena.healthy.stdout.head + arena.healthy.stdout.tail
    assert not arena.healthy.stdout.truncated
    assert arena.healthy.stdout.head.endswith("gan 1024\n")


def test_every_kind_of_hostility_has_a_case() -> None:
    assert {kind for case in CASES for kind in case.kinds} == set(KINDS)
    assert len(CASES) >= 60


def test_no_two_cases_share_a_name() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []


def test_what_a_place_cannot_stop_is_listed_with_a_reason_and_docker_stops_everything(
    place: Place, request: pytest.FixtureRequest
) -> None:
    assert set(place.differences) <= {case.name for case in CASES}
    assert all(difference.why for difference in place.differences.values())
    # Podman is of the same kind.
    if request.config.getoption("--sandbox", default="docker") == "docker":
        assert not place.differences
