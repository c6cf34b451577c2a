"""`ml-bench agent` from end to end: the oracle scores what the references score, who does nothing scores nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.environments.build import Options, build
from ml_bench_metric.environments.images import list_images
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from tests.test_cli import _run

ALL = ("--tasks", "sample", "--limit-memory", "512m", "--judge-memory", "512m", "--quiet", "--skip-checks")


def agent(path: Path, *arguments: object, expected: int = 0) -> tuple[dict[str, Any], str]:
    """Return the numbers of a run, and what was said on the way."""
    ended = _run("agent", *ALL, "--out", path / "run", "--json", *arguments, cwd=path)
    assert ended.returncode == expected, ended.stderr
    return (json.loads(ended.stdout) if ended.stdout else {}), ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agent", "command"), "needs --command"),
        (("--agent", "nop", "--inside"), "are for --agent command"),
        (("--agent", "command", "--command", " "), "the command is empty"),
        (("--agent", "nop", "--host-network"), "give that too"),
        (("--agent", "nop", "--network", "allowlist"), "give both or neither"),
        (("--agent", "nop", "--allow", "example.org"), "give both or neither"),
        (("--agent", "nop", "--network", "allowlist", "--allow", "http://example.org"), "is no host; write"),
        (("--agent", "nop", "--variable", "a-b=1"), "write NAME=VALUE"),
        (("--agent", "nop", "--max-changes", "0"), "--max-changes is nothing"),
        (("--agent", "nop", "--repositories", "nothing"), "no task of split"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    _, said = agent(tmp_path, *arguments, expected=2)
    assert message in " ".join(said.replace("│", " ").split())
    assert not (tmp_path / "run").exists()


@pytest.mark.docker
def test_the_oracle_scores_what_the_references_score_and_the_same_command_does_nothing_again(
    tmp_path: Path, sample_image: str
) -> None:
    numbers, _ = agent(tmp_path, "--agent", "oracle")
    assert {rule: score["value"] for rule, score in numbers["overall"]["success"].items()} == {
        "original": 1.0,
        "strict": 1.0,
    }
    assert numbers["overall"]["attempts"] == numbers["overall"]["scripts"] == 10
    again, said = agent(tmp_path, "--agent", "oracle")
    assert again == numbers
    assert "10 of 10 attempts are in" in said and "10 of 10 candidates have a result" in said
    shown = _run("show", tmp_path / "run", "tiny-gan/6", cwd=tmp_path)
    assert "write" in shown.stdout and "left       run.sh" in shown.stdout and "strict     passed" in shown.stdout
    rejudged = _run("rejudge", tmp_path / "run", cwd=tmp_path)
    assert rejudged.returncode == 0, rejudged.stderr
    _, said = agent(tmp_path, "--agent", "nop", expected=2)
    assert "another run" in said


@pytest.mark.docker
def test_who_does_nothing_scores_nothing(tmp_path: Path, sample_image: str) -> None:
    numbers, _ = agent(tmp_path, "--agent", "nop", "--repositories", "tiny-text,tiny-gan")
    assert [score["value"] for score in numbers["overall"]["success"].values()] == [0.0, 0.0]
    assert (numbers["overall"]["attempts"], numbers["overall"]["scripts"]) == (5, 0)


@pytest.mark.docker
def test_what_an_agent_sets_up_in_a_bare_image_is_there_where_it_is_judged(
    tmp_path: Path, docker_sandbox: DockerSandbox, sample_image: str
) -> None:
    if not any(image.bare and "tiny-text" in image.repositories for image in list_images(docker_sandbox.client)):
        build(["sample"], docker_sandbox.client, Options(bare=True))
    site = "$(python -c 'import site; print(site.getsitepackages()[0])')"
    setup = f"""
    python -c 'import numpy' && exit 1
    echo 'def fine(): print("fine")' > {site}/brought.py
    printf '#!/bin/sh\\npython -c "import brought; brought.fine()"; cat ~/mine' > /opt/env/bin/brought
    chmod +x /opt/env/bin/brought; echo mine > ~/mine; echo lost > /tmp/lost
    echo 'set -e; [ ! -e /tmp/lost ]; [ "$(brought | xargs)" = "fine mine" ]' > run.sh
    """
    numbers, _ = agent(
        tmp_path,
        *("--agent", "command", "--inside", "--command", setup, "--label", "setup", "--start", "bare"),
        *("--repositories", "tiny-text"),
    )
    assert numbers["overall"]["success"]["original"]["value"] == 1.0, numbers


@pytest.mark.docker
def test_an_agent_without_an_image_is_an_environment_error_that_is_made_again_when_there_is_one(
    tmp_path: Path, sample_image: str
) -> None:
    rows = [json.loads(line) for line in _sample_rows()]
    rows[0] = {**rows[0], "github": "https://example.org/nobody/knows", "repository": "knows", "task_id": "knows/1"}
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))
    options = ("--agent", "oracle", "--tasks", tasks)
    numbers, said = agent(tmp_path, *options)
    assert "no environment for repository" in said
    assert numbers["overall"]["why"] == {"done": 1, "environment_error": 1}
    score = numbers["overall"]["success"]["original"]
    assert (score["value"], score["lower"], score["upper"]) == (None, 0.5, 1.0)
    _, said = agent(tmp_path, *options, "--retry-errors")
    assert "1 of 2 attempts are in" in said


def _sample_rows() -> list[str]:
    import ml_bench_sample

    return (ml_bench_sample.path() / "tasks_a.jsonl").read_text(encoding="utf-8").splitlines()
