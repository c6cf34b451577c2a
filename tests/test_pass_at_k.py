"""Estimators and intervals: against exact fractions, and against what was wrong elsewhere."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_metric.pass_at_k import bootstrap_interval, checked_ks, ordered, unbiased
from tests.result_builders import quick

EPSILON = float(np.finfo(float).eps)


def exact(n: int, c: int, k: int) -> Fraction:
    return 1 - Fraction(math.comb(n - c, k), math.comb(n, k))


counts = st.integers(0, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n + 3)))


@quick
@given(counts)
def test_unbiased_equals_the_exact_fraction(count: tuple[int, int, int]) -> None:
    n, c, k = count
    found = unbiased([n], [c], k)[0]
    if k > n:
        assert math.isnan(found)
    else:
        assert abs(Fraction(float(found)) - exact(n, c, k)) <= 4 * k * EPSILON * exact(n, c, k)


@quick
@given(
    st.integers(1, 7).flatmap(lambda n: st.tuples(st.lists(st.booleans(), min_size=n, max_size=n), st.integers(1, n)))
)
def test_unbiased_is_the_mean_over_all_ways_to_draw_k_candidates(drawn: tuple[list[bool], int]) -> None:
    passed, k = drawn
    ways = [any(way) for way in itertools.combinations(passed, k)]
    assert unbiased([len(passed)], [sum(passed)], k)[0] == pytest.approx(sum(ways) / len(ways))


@quick
@given(st.lists(counts, max_size=20), st.integers(1, 10))
def test_tasks_do_not_influence_each_other(many: list[tuple[int, int, int]], k: int) -> None:
    n, c = [one[0] for one in many], [one[1] for one in many]
    alone = [unbiased([a], [b], k)[0] for a, b in zip(n, c, strict=True)]
    np.testing.assert_array_equal(unbiased(n, c, k), alone)


@quick
@given(st.integers(1, 200), st.integers(1, 200))
def test_certain_values_are_exact(n: int, k: int) -> None:
    values = unbiased([n, n], [0, n], k)
    expected = [math.nan, math.nan] if k > n else [0.0, 1.0]
    np.testing.assert_array_equal(values, expected)


@quick
@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n), st.integers(1, n))))
def test_more_draws_than_failures_are_certain_to_the_last_digit(count: tuple[int, int, int]) -> None:
    n, c, k = count
    assert (unbiased([n], [c], k)[0] == 1.0) == (k > n - c)


@quick
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_at_1_is_the_share_to_the_last_digit(count: tuple[int, int]) -> None:
    n, c = count
    assert unbiased([n], [c], 1)[0] == c / n


@quick
@given(counts)
def test_values_grow_with_c_and_k_and_stay_within_0_and_1(count: tuple[int, int, int]) -> None:
    n, _, k = count
    values = unbiased(np.full(n + 1, n), np.arange(n + 1), k)
    if k <= n:
        assert np.all((values >= 0) & (values <= 1))
        assert np.all(np.diff(values) >= -4 * k * EPSILON)
        assert np.all(unbiased(np.full(n + 1, n), np.arange(n + 1), n) >= values - 4 * k * EPSILON)


@pytest.mark.parametrize(("n", "c"), [(0, 0), (1, 0), (1, 1), (4, 0), (4, 4)])
def test_k_larger_than_n_is_absent_never_one(n: int, c: int) -> None:
    assert math.isnan(unbiased([n], [c], 5)[0])
    assert math.isnan(ordered([[True] * c + [False] * (n - c)], 5)[0])


def test_large_counts_neither_overflow_nor_take_long() -> None:
    values = unbiased([10_000, 10_000], [1, 9_999], 10_000)
    np.testing.assert_allclose(values, [1.0, 1.0])
    assert unbiased([2**40], [1], 1)[0] == 2.0**-40
    assert math.isnan(unbiased([3], [1], 10**12)[0])


def test_small_chances_do_not_cancel() -> None:
    n, c, k = 10**9, 1, 3
    assert unbiased([n], [c], k)[0] == pytest.approx(float(exact(n, c, k)), rel=1e-14)


def test_shapes_and_empty_input() -> None:
    assert unbiased([], [], 1).shape == (0,)
    assert unbiased(5, 1, 1).shape == ()
    assert unbiased(5, [0, 1, 5], 2).shape == (3,)
    assert unbiased(np.array([5, 3], dtype=np.uint8), np.array([1, 3], dtype=np.uint8), 4).dtype == np.float64
    assert ordered([], 1).shape == (0,)


@pytest.mark.parametrize(
    ("n", "c", "message"),
    [
        ([5, 3], [1, 4], "c is 4, more than n, which is 3"),
        ([5], [-1], "c is -1"),
        ([-5], [-6], "n is -5"),
        ([5.0], [1], "n must be whole numbers"),
        ([True], [True], "n must be whole numbers"),
        (["5"], ["1"], "n must be whole numbers"),
        ([5], [None], "c must be whole numbers"),
    ],
)
def test_impossible_counts_are_named(n: Any, c: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unbiased(n, c, 1)


@pytest.mark.parametrize("k", [0, -1, 1.0, "1", True, None, (1,)])
def test_a_k_that_is_none_is_named_before_anything_runs(k: Any) -> None:
    for call in (lambda: unbiased([5], [1], k), lambda: ordered([[True]], k), lambda: checked_ks([1, k])):
        with pytest.raises(ValueError, match="k is "):
            call()


def test_values_of_k_are_sorted_and_each_is_there_once() -> None:
    assert checked_ks([5, 1, 5, 2]) == (1, 2, 5)
    assert checked_ks(np.array([5, 1])) == (1, 5)
    assert checked_ks(3) == (3,)
    assert all(type(k) is int for k in checked_ks(np.array([5, 1])))


@pytest.mark.parametrize("ks", [[], "1,2,5", "5"])
def test_no_values_of_k_is_an_error(ks: Any) -> None:
    with pytest.raises(ValueError, match="k"):
        checked_ks(ks)


@quick
@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=9)), st.integers(1, 5))
def test_ordered_is_whether_one_of_the_first_k_passes(passed: list[list[bool]], k: int) -> None:
    assert ordered(passed, k).tolist() == [float(any(task[:k])) for task in passed]


@quick
@given(st.lists(st.sampled_from([True, False, None]), max_size=6), st.integers(1, 6))
def test_ordered_is_undefined_just_where_the_unknown_verdicts_decide(verdicts: list[bool | None], k: int) -> None:
    unknown = verdicts.count(None)
    possible = set()
    for guess in itertools.product([True, False], repeat=unknown):
        guesses = iter(guess)
        possible.add(float(any([next(guesses) if v is None else v for v in verdicts][:k])))
    found = ordered([verdicts], k)[0]
    if len(verdicts) < k or len(possible) == 2:
        assert math.isnan(found)
    else:
        assert {found} == possible


def test_no_later_candidate_stands_in_for_one_that_is_unknown() -> None:
    assert math.isnan(ordered([[None, True]], 1)[0])


values_of_tasks = st.lists(st.sampled_from([0.0, 0.2, 0.6, 1.0, 1 / 3]), min_size=1, max_size=30)


@quick
@given(values_of_tasks, st.randoms(use_true_random=False))
def test_an_interval_does_not_depend_on_the_order_of_tasks(values: list[float], random: Random) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    assert bootstrap_interval(values, resamples=200) == bootstrap_interval(shuffled, resamples=200)


@quick
@given(values_of_tasks)
def test_an_interval_lies_within_the_values_and_is_of_plain_floats(values: list[float]) -> None:
    low, high = bootstrap_interval(values, resamples=200)
    assert type(low) is float
    assert type(high) is float
    assert min(values) <= low <= high <= max(values)


def test_rounding_never_takes_an_interval_beyond_the_values() -> None:
    low, high = math.nextafter(0.7, 1), math.nextafter(math.nextafter(0.7, 1), 1)
    assert bootstrap_interval([low] * 7 + [high] * 4, resamples=50)[0] == low


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1.0])
@pytest.mark.parametrize("tasks", [1, 3, 260])
def test_equal_values_give_a_degenerate_interval(value: float, tasks: int) -> None:
    assert bootstrap_interval([value] * tasks) == (value, value)


def test_an_interval_is_that_of_the_binomial_for_zeros_and_ones() -> None:
    # 68 tasks, 52 of them pass: quantiles 0.025 and 0.975 of Binomial(68, 52/68) / 68, computed exactly here.
    p, total = Fraction(52, 68), 68
    cumulative = list(
        itertools.accumulate(math.comb(total, i) * p**i * (1 - p) ** (total - i) for i in range(total + 1))
    )
    low = next(i for i, chance in enumerate(cumulative) if chance >= Fraction(25, 1000)) / total
    high = next(i for i, chance in enumerate(cumulative) if chance >= Fraction(975, 1000)) / total
    assert bootstrap_interval([1.0] * 52 + [0.0] * 16) == pytest.approx((low, high), abs=1.01 / total)


def test_an_interval_is_reproduced_by_its_seed_on_every_version_of_numpy() -> None:
    values = [0.0, 0.2, 0.4, 0.4, 1.0, 1.0, 0.6]
    assert bootstrap_interval(values) == bootstrap_interval(values, seed=0)
    assert bootstrap_interval(values) == pytest.approx((0.2571428571428571, 0.7714285714285715), abs=1e-15)
    spread = np.linspace(0, 1, 50) ** 2
    assert bootstrap_interval(spread, seed=1) != bootstrap_interval(spread, seed=2)


def test_more_confidence_gives_a_wider_interval() -> None:
    values = np.linspace(0, 1, 50)
    narrow, wide = bootstrap_interval(values, confidence=0.5), bootstrap_interval(values, confidence=0.99)
    assert wide[0] < narrow[0] < 0.5 < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "at least one"),
        ([0.5, math.nan], {}, "finite"),
        ([[0.5]], {}, "row"),
        ([0.5], {"confidence": 95}, "confidence is 95"),
        ([0.5], {"resamples": 0}, "resamples is 0"),
    ],
)
def test_an_interval_of_nothing_or_of_undefined_values_is_an_error(
    values: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(values, **options)


def test_an_interval_over_many_tasks_needs_bounded_memory() -> None:
    values = np.random.RandomState(1).random_sample(3_000)
    tracemalloc.start()
    bootstrap_interval(values, resamples=3_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # all draws at once would take 72 MB, and twice that to add them up
