"""Each hostile agent gets the verdicts that it must get, harms nobody, and leaves nothing behind."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from ml_bench_metric.environments.build import Options, build
from ml_bench_metric.environments.images import EnvironmentImage, list_images, serving_images
from ml_bench_metric.results import RULES
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.tasks import load_tasks
from ml_bench_metric.verdicts import verdict
from tests.hostile.baits import Baits
from tests.hostile_agents.arena import Arena
from tests.hostile_agents.case import KINDS, TASK, Case
from tests.hostile_agents.catalogue import BARE_CASES, CASES, HONEST

_GONE_SECONDS = 30.0


@pytest.fixture(scope="module")
def baits() -> Iterator[Baits]:
    laid = Baits()
    yield laid
    laid.remove()


@pytest.fixture(scope="module")
def arena(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path_factory: pytest.TempPathFactory, baits: Baits
) -> Arena:
    return Arena(docker_sandbox, sample_image, tmp_path_factory.mktemp("hostile-agents"), baits)


@pytest.fixture(scope="module")
def bare_arena(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path_factory: pytest.TempPathFactory, baits: Baits
) -> Arena:
    def found() -> list[EnvironmentImage]:
        return serving_images(list_images(docker_sandbox.client), "tiny-gan", TASK, bare=True)

    if not found():
        build(["sample"], docker_sandbox.client, Options(bare=True))
    return Arena(docker_sandbox, found()[0].name, tmp_path_factory.mktemp("hostile-bare"), baits, "bare")


@pytest.mark.docker
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_agent_gets_what_it_must_get_and_leaves_nothing(case: Case, arena: Arena) -> None:
    _check(case, arena)


@pytest.mark.docker
@pytest.mark.parametrize("case", BARE_CASES, ids=lambda case: case.name)
def test_a_hostile_agent_in_a_bare_start_gets_what_it_must_get(case: Case, bare_arena: Arena) -> None:
    _check(case, bare_arena)


def _check(case: Case, arena: Arena) -> None:
    report = arena.report(case)
    said = f"\n{report.attempt!r}\n{report.result!r}\n{report.output}"
    assert report.attempt.why == case.why, said
    verdicts = [verdict(report.result, rule) for rule in RULES]
    assert tuple(one.passed for one in verdicts) == case.passes, f"{verdicts}{said}"
    assert case.also(report.attempt, report.output), said
    assert report.touched == (), "it reached something of the host"
    assert arena.baits.secret not in report.output, "it read a secret of the host"
    assert report.seen == arena.healthy, "the next agent saw what this one did"
    assert _gone(arena, report.left) == [], "a container was left behind"


def _gone(arena: Arena, containers: tuple[str, ...]) -> list[str]:
    """Wait for the removal in the background, and return what is still there."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (left := sorted(set(containers) & arena.containers())) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


@pytest.mark.docker
def test_an_honest_agent_passes_and_the_canary_is_well_before_anything_hostile_was_there(arena: Arena) -> None:
    assert [verdict(arena.honest.result, rule).passed for rule in RULES] == [True, True]
    assert arena.healthy.endswith("gan 1024\n") and "hostile" not in arena.healthy


def test_every_kind_of_hostility_has_a_case_and_no_two_share_a_name() -> None:
    assert {kind for case in CASES for kind in case.kinds} == set(KINDS)
    assert [name for name, count in Counter(case.name for case in (*CASES, *BARE_CASES)).items() if count > 1] == []


def test_what_is_called_honest_is_the_reference() -> None:
    assert load_tasks("sample", "A").by_id[TASK].output.strip() == HONEST.strip()
