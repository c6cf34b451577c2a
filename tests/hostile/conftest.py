"""The hostile suite's fixtures.

`pytest tests/hostile --sandbox NAME` points it at another sandbox of `places.PLACES`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.arena import Arena
from tests.hostile.baits import Baits
from tests.hostile.case import Case
from tests.hostile.places import PLACES, Place


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The sandbox under test."""
    name = str(request.config.getoption("--sandbox"))
    if name not in PLACES:
        pytest.fail(f"--sandbox {name}: there is no such place; give one of {', '.join(PLACES)}")
    with PLACES[name](request) as found:
        yield found


@pytest.fixture(scope="session")
def arena(request: pytest.FixtureRequest, place: Place) -> Iterator[Arena]:
    """All the cases that were selected, under way; a test waits for its own."""
    chosen = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    cases = {case.name: case for case in chosen if isinstance(case, Case) and _may_run(case, place)}
    baits = Baits()
    try:
        opened = Arena(place, baits, list(cases.values()))
        yield opened
        opened.close()
    finally:
        baits.remove()


def _may_run(case: Case, place: Place) -> bool:
    difference = place.differences.get(case.name)
    return difference is None or difference.ending is not None
