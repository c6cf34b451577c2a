"""No call to an engine waits for ever."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from requests.exceptions import ReadTimeout

from ml_bench_metric.sandbox.docker_engine import set_deadlines


@pytest.fixture
def mute(tmp_path: Path) -> Iterator[str]:
    """The address of an engine that takes connections and never answers."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "engine.sock"))
        server.listen()
        yield f"unix://{tmp_path / 'engine.sock'}"


@pytest.mark.parametrize("call", ["attach_socket", "inspect_container", "start"])
def test_an_engine_that_never_answers_is_given_up(mute: str, call: str) -> None:
    client = docker.DockerClient(base_url=mute, version="1.41", timeout=1)
    set_deadlines(client)
    set_deadlines(client)
    began = time.monotonic()
    with pytest.raises(ReadTimeout):
        getattr(client.api, call)("container")
    assert time.monotonic() - began < 10


def test_who_asks_for_no_deadline_has_none(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = docker.DockerClient(base_url=mute, version="1.41", timeout=1)
    asked: list[object] = []
    monkeypatch.setattr(client.api, "request", lambda *_, **options: asked.append(options["timeout"]))
    set_deadlines(client)
    client.api.get("http+docker://localhost/x", timeout=None)
    client.api.get("http+docker://localhost/x")
    assert asked == [None, 1]
