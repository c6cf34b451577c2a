"""Pass@k: estimators and intervals, on arrays. Whoever calls averages over tasks."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Estimator = Literal["unbiased", "ordered"]
"""`unbiased`: of the Codex paper, from all candidates. `ordered`: of the ML-Bench paper, from the first k."""

Floats = npt.NDArray[np.float64]

_DRAWN_AT_ONCE = 1_000_000
"""Bounds the memory of the bootstrap: this many integers are drawn at one time."""


def checked_ks(ks: int | Iterable[int]) -> tuple[int, ...]:
    """Return the values of k, ascending and each once: check them before anything is executed.

    A number stands for itself alone.

    Raises:
        ValueError: there is none, or one is not a whole number of at least 1; the message names it.
    """
    if isinstance(ks, str | bytes):
        raise ValueError(f"k is {ks!r}; give whole numbers, for example [1, 2, 5]")
    found = sorted({_checked_k(k) for k in (ks if isinstance(ks, Iterable) else (ks,))})
    if not found:
        raise ValueError("no k is given; give whole numbers of at least 1, for example [1, 2, 5]")
    return tuple(found)


def _checked_k(k: object) -> int:
    try:
        if isinstance(k, bool | np.bool_):
            raise TypeError
        value = operator.index(k)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"k is {k!r}; it must be a whole number of at least 1") from None
    if value < 1:
        raise ValueError(f"k is {value}; it must be at least 1")
    return value


def unbiased(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> Floats:
    """Return the unbiased estimate of pass@k of every task: 1 - C(n - c, k) / C(n, k).

    This is the chance that at least one of k candidates passes when k of the n are drawn without putting back; see
    equation 1 of Chen et al. 2021, arXiv 2107.03374. It is evaluated as a product of k factors that never leaves
    [0, 1], so there are no large binomials, and no cancellation where the chance is small.

    Args:
        n: number of candidates of each task, whole numbers of at least 0; any shape.
        c: how many of them pass, 0 to n; of the same shape, or one that broadcasts to it.
        k: at least 1.

    Returns:
        An array of the common shape, values from 0 to 1, NaN where n < k: there pass@k is undefined, not 0 and not 1.

    Raises:
        ValueError: n, c or k is out of range or not whole; the message names the value.
    """
    k = _checked_k(k)
    drawn_from, passing = np.broadcast_arrays(_counts("n", n), _counts("c", c))
    if np.any(passing > drawn_from):
        where = np.unravel_index(int(np.argmax(passing > drawn_from)), passing.shape)
        raise ValueError(f"c is {passing[where]}, more than n, which is {drawn_from[where]}")
    defined = drawn_from >= k
    total, good = drawn_from[defined], passing[defined].astype(np.float64)
    # After j draws without a pass all c passing candidates are among the n - j that are left: the next one passes
    # with chance c / (n - j). Adding these up keeps c / n exact for k = 1; at j = n - c the sum becomes 1 and stays it.
    chance = np.zeros(total.shape)
    for j in range(k if total.size else 0):
        chance += (1.0 - chance) * good / (total - j)
    result = np.full(drawn_from.shape, np.nan)
    result[defined] = chance
    return result


def _counts(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, not {array.dtype} ({array.flat[0]!r})")
    if array.min() < 0:
        raise ValueError(f"{name} is {array.min()}; it must be at least 0")
    return array.astype(np.int64)


def ordered(passed: Sequence[Sequence[bool | None]], k: int) -> Floats:
    """Return pass@k as the ML-Bench paper counts it: 1 where one of the first k candidates of a task passes, else 0.

    It depends on the order of the candidates, and uses no more than k of them: no later candidate stands in for an
    earlier one whose verdict is unknown.

    Args:
        passed: the verdicts of each task, in the order of its candidates; None is an unknown one.
        k: at least 1.

    Returns:
        An array of shape (tasks,): 1.0, 0.0, or NaN where it is undefined: fewer than k candidates, or none of the
        first k is known to pass and one is unknown.

    Raises:
        ValueError: k is not a whole number of at least 1.
    """
    k = _checked_k(k)
    return np.array([_ordered(verdicts, k) for verdicts in passed], dtype=np.float64)


def _ordered(verdicts: Sequence[bool | None], k: int) -> float:
    first = verdicts[:k]
    if len(first) < k:
        return float("nan")
    if any(verdict for verdict in first):
        return 1.0
    return float("nan") if any(verdict is None for verdict in first) else 0.0


def bootstrap_interval(
    values: npt.ArrayLike, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of per-task values.

    Tasks are drawn with replacement, as many as there are; the interval is that between the percentiles
    (1 - confidence) / 2 and (1 + confidence) / 2 of the means. It says how far the mean depends on the choice of
    tasks; it knows nothing of what sampling other candidates would give. It is the same for any order of the values.
    One task, or equal values, give an interval of width 0.

    Args:
        values: one finite number per task, shape (tasks,).
        confidence: between 0 and 1.
        resamples: how often the tasks are drawn.
        seed: of the random numbers; the same seed gives the same interval.

    Raises:
        ValueError: there is no value, one is not finite, or an argument is out of range.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)):
        raise ValueError("values must be a row of at least one finite number, one per task")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}; it must lie between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; it must be at least 1")
    distinct, counts = np.unique(array, return_counts=True)
    return _interval(tuple(distinct.tolist()), tuple(counts.tolist()), confidence, resamples, seed)


@lru_cache(maxsize=256)  # groups, rules and values of k often share their values
def _interval(
    distinct: tuple[float, ...], counts: tuple[int, ...], confidence: float, resamples: int, seed: int
) -> tuple[float, float]:
    # Only how often each distinct value is drawn matters, and that is multinomial: with 5 candidates a task there are
    # few distinct values, however many tasks. The legacy generator, because NumPy keeps its numbers for good.
    values, tasks = np.array(distinct), sum(counts)
    random = np.random.RandomState(seed)
    means = np.empty(resamples)
    step = max(1, _DRAWN_AT_ONCE // values.size)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn = random.multinomial(tasks, np.array(counts) / tasks, size=stop - start)
        # A sum along rows, not a matrix product: that would depend on the number of threads in its last digits.
        means[start:stop] = (drawn / tasks * values).sum(axis=1)
    np.clip(means, values[0], values[-1], out=means)
    low, high = np.quantile(means, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    return float(low), float(high)
