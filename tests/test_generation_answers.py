"""The key of an answer holds all that decides on it and nothing else; shares of tokens add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ml_bench_solvers.generation.answers import Sampling, Usage, answer_key
from tests.generation_builders import prompt

PROMPT = prompt("dgl/1")
KEY = answer_key(PROMPT, "m", Sampling(), 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"temperature": 0.9},
        {"top_p": 0.9},
        {"max_tokens": 1},
        {"max_tokens": None},
        {"seed": 0},
        {"stop": ("\n",)},
        {"extra": {"min_p": 0.1}},
    ],
)
def test_sampling_decides_on_the_key(changed: dict[str, Any]) -> None:
    assert answer_key(PROMPT, "m", Sampling(**changed), 0) != KEY


def test_prompt_model_task_and_place_decide_on_the_key() -> None:
    others = [
        answer_key(prompt("dgl/1", "another"), "m", Sampling(), 0),
        answer_key(prompt("dgl/2", "dgl/1"), "m", Sampling(), 0),
        answer_key(PROMPT, "other", Sampling(), 0),
        answer_key(PROMPT, "m", Sampling(), 1),
    ]
    assert len({KEY, *others}) == 5


def test_what_does_not_reach_the_model_does_not_decide_on_the_key() -> None:
    told = replace(PROMPT, template="other/2", context_characters=7, cut=True)
    assert answer_key(told, "m", Sampling(), 0) == KEY


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 50))
def test_shares_add_up_and_differ_by_one_at_most(prompt_tokens: int, completion_tokens: int, parts: int) -> None:
    whole = Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
    shares = whole.shares(parts)
    assert len(shares) == parts
    total = Usage()
    for share in shares:
        total = total + share
    assert total == whole
    assert max(s.prompt_tokens for s in shares) - min(s.prompt_tokens for s in shares) <= 1


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": -1}, {"temperature": float("nan")}, {"top_p": 0}, {"top_p": 1.1}, {"max_tokens": 0}, {"top_k": 3}],
)
def test_what_is_no_sampling_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Sampling(**wrong)
