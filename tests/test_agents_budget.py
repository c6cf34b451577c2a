"""What an agent uses is counted, and ends its work where it reaches a limit: never later, and never for nothing."""

from __future__ import annotations

import pytest

from ml_bench_solvers.agents.budget import Budget, Limit, Meter, Purse, Spent, Used


class Clock:
    """A clock that stands still until it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def meter(purse: Purse | None = None, clock: Clock | None = None, **limits: object) -> Meter:
    return Meter(Budget.model_validate(limits), purse or Purse(None), clock or Clock())


def reached(one: Meter) -> Limit | None:
    try:
        one.check()
    except Spent as spent:
        return spent.limit
    return None


def test_the_last_turn_may_be_used_and_the_one_behind_it_is_refused() -> None:
    one = meter(max_turns=2)
    for _ in range(2):
        one.spend(Used(turns=1))
        assert reached(one) is None
    with pytest.raises(Spent, match="all 2 turns are used"):
        one.spend(Used(turns=1))
    assert reached(one) == "turns"


def test_money_ends_the_work_with_the_answer_that_reaches_its_limit() -> None:
    one = meter(max_cost=1.0, max_turns=None)
    one.spend(Used(cost=0.75))
    with pytest.raises(Spent) as caught:
        one.spend(Used(cost=0.25))
    assert caught.value.limit == "cost"
    assert one.used.cost == 1.0


def test_what_costs_nothing_goes_on_under_a_limit_of_nothing() -> None:
    one = meter(Purse(0.0), max_cost=0.0, max_turns=None)
    one.spend(Used(turns=5, prompt_tokens=1000))
    assert reached(one) is None
    assert not Purse(0.0).empty


def test_time_counts_from_the_beginning_of_the_work_and_not_from_that_of_its_sandbox() -> None:
    clock = Clock()
    one = meter(clock=clock, max_seconds=10.0)
    clock.now += 8
    one.begin()
    clock.now += 9
    assert reached(one) is None
    assert one.seconds_left == 1.0
    clock.now += 1
    assert reached(one) == "seconds"
    assert one.seconds_left == 0.0


def test_one_purse_ends_the_work_on_every_task() -> None:
    purse = Purse(1.0, spent=0.5)
    first, second = meter(purse), meter(purse)
    first.spend(Used(cost=0.4))
    assert reached(second) is None
    with pytest.raises(Spent):
        second.spend(Used(cost=0.2))
    assert reached(first) == reached(second) == "total_cost"
    assert purse.spent == pytest.approx(1.1)


def test_the_first_limit_that_is_reached_stays_the_reason() -> None:
    clock = Clock()
    one = meter(clock=clock, max_seconds=1.0)
    assert one.end("disk", "the disk is full").limit == "disk"
    clock.now += 5
    assert reached(one) == "disk"
    assert one.end("turns", "later").limit == "disk"


def test_what_was_used_adds_up() -> None:
    one = meter(max_turns=None)
    one.spend(Used(turns=1, prompt_tokens=10, completion_tokens=2, cost=0.5))
    one.spend(Used(turns=1, prompt_tokens=5, completion_tokens=1, cost=0.25))
    assert one.used == Used(turns=2, prompt_tokens=15, completion_tokens=3, cost=0.75)
