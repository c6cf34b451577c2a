"""What a place does not stop is said to those who choose it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.hostile import podman_place, process_place
from tests.hostile.catalogue import CASES

SECURITY = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", process_place.DIFFERENCES)
def test_what_the_process_sandbox_does_not_stop_is_documented(name: str) -> None:
    assert f"`{name}`" in SECURITY.partition("## The process sandbox")[2]


@pytest.mark.parametrize("differences", [process_place.DIFFERENCES, podman_place.DIFFERENCES])
def test_only_cases_that_exist_are_excused(differences: Iterable[str]) -> None:
    assert set(differences) <= {case.name for case in CASES}
