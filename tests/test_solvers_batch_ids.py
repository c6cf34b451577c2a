"""A custom id says which answers of which task a request is for, whatever the task is called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_solvers.batch_ids import LONGEST_ID, Places, custom_id, known_names, places_of
from tests.result_builders import quick

ODD = ["dgl/1", "dgl_1", "dgl__1", "dgl_2f1", "a b/1", "ünï/1", "\ud83d/1", "", "__", "x" * 49, "x" * 50, "x" * 500]
PLACES = st.tuples(st.integers(0, 999_999), st.integers(1, 999_999))


def test_ids_are_as_documented() -> None:
    assert custom_id(Places("dgl/1", 0)) == "dgl_2f1__0"
    assert custom_id(Places("dgl/1", 0, 5)) == "dgl_2f1__0x5"


@quick
@given(task_id=st.one_of(st.sampled_from(ODD), st.text(max_size=120)), places=PLACES)
def test_every_id_is_safe_and_leads_back(task_id: str, places: tuple[int, int]) -> None:
    wanted = Places(task_id, *places)
    name = custom_id(wanted)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert len(name) <= LONGEST_ID
    assert places_of(name, known_names([task_id, *ODD])) == wanted


@pytest.mark.parametrize("task_id", ODD)
def test_the_longest_places_fit_into_an_id_too(task_id: str) -> None:
    wanted = Places(task_id, 999_999, 999_999)
    assert len(custom_id(wanted)) <= LONGEST_ID
    assert places_of(custom_id(wanted), known_names(ODD)) == wanted


@quick
@given(first=st.text(max_size=80), second=st.text(max_size=80), places=PLACES, others=PLACES)
def test_no_two_requests_have_the_same_id(
    first: str, second: str, places: tuple[int, int], others: tuple[int, int]
) -> None:
    same = (first, places) == (second, others)
    assert (custom_id(Places(first, *places)) == custom_id(Places(second, *others))) == same


def test_long_names_that_begin_alike_differ() -> None:
    alike = [f"{'x' * 100}/{number}" for number in range(50)]
    assert len({custom_id(Places(task_id, 0)) for task_id in alike}) == 50


@pytest.mark.parametrize(
    "text", ["", "dgl/1", "dgl_2f1", "dgl_2f1__", "dgl_2f1__-1", "dgl_2f1__0x", "dgl_2f2__0", "request-1", "dgl_2f1__٣"]
)
def test_what_is_no_id_of_a_known_task_is_told(text: str) -> None:
    assert places_of(text, known_names(["dgl/1"])) is None


@pytest.mark.parametrize("places", [Places("dgl/1", -1), Places("dgl/1", 0, 0), Places("dgl/1", 1_000_000)])
def test_places_that_no_id_can_hold_are_refused(places: Places) -> None:
    with pytest.raises(ValueError, match="give a place from 0"):
        custom_id(places)
