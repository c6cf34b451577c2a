"""No network, the quick way: the same for the candidate as the ordinary one, and given up where it does not work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ml_bench_metric.sandbox.docker_network import NoNetwork
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.protocol import SandboxError
from tests.sandbox_contract import DockerRunner

pytestmark = pytest.mark.docker

_LOOK = """
import pathlib, socket
print(sorted(path.name for path in pathlib.Path("/sys/class/net").iterdir()), socket.getfqdn())
for path in ("/etc/hosts", "/proc/net/if_inet6", "/proc/sys/net/ipv6/conf/all/disable_ipv6"):
    print(pathlib.Path(path).read_text())
for address in (("127.0.0.1", 9), ("localhost", 9), ("169.254.169.254", 80), ("::1", 9), ("example.org", 80)):
    try:
        socket.create_connection(address)
    except OSError as error:
        print(address, error)
try:
    open("/etc/hosts", "a")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def run(sample_image: str) -> Iterator[DockerRunner]:
    with DockerSandbox() as sandbox:
        yield DockerRunner(sandbox, sample_image)


def _ordinary(self: NoNetwork, image: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return {}, {}


def test_a_candidate_sees_the_same_in_both_ways(run: DockerRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    created, _ = run.sandbox._network.options(run.sandbox.image_digest(run.image))
    assert created == {"network_disabled": True}, "this engine does not do it the quick way"
    quick = run(_LOOK, "python")
    monkeypatch.setattr(NoNetwork, "options", _ordinary)
    ordinary = run(_LOOK, "python")
    assert quick.status == ordinary.status == 0
    assert quick.stdout.head == ordinary.stdout.head
    assert "('127.0.0.1', 9) [Errno 111] Connection refused" in quick.stdout.head


def test_programs_of_one_candidate_reach_each_other_and_nobody_elses(run: DockerRunner) -> None:
    serve = "python3 -c 'import socket; s = socket.create_server((\"localhost\", 4711)); s.accept()' & sleep 1; "
    assert run(serve + ": < /dev/tcp/localhost/4711").status == 0
    waiting = run.sandbox.prepare(run.job(serve + "sleep 3; kill %1 && exit 5"))
    waiting_run: list[Any] = []
    thread = threading.Thread(target=lambda: waiting_run.append(waiting.run()))
    thread.start()
    other = run("for _ in 1 2 3 4 5 6; do : < /dev/tcp/localhost/4711 && exit 9; sleep 0.3; done; exit 0")
    thread.join()
    assert other.status == 0
    assert waiting_run[0].status == 5


def test_where_an_engine_cannot_show_the_file_the_ordinary_way_is_taken(
    run: DockerRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    import docker.types

    real = docker.types.Mount
    monkeypatch.setattr(docker.types, "Mount", lambda target, _, **options: real(target, "/no/such/hosts", **options))
    assert run("getent hosts localhost").status == 0


def test_what_containers_share_is_made_again_where_somebody_removed_it(run: DockerRunner) -> None:
    assert run("true").status == 0
    shared = run.sandbox._network._pattern
    run.sandbox.client.api.remove_container(shared, force=True)
    with pytest.raises(SandboxError, match="bind source path does not exist"):
        run("true")
    assert run("getent hosts localhost").status == 0
    assert run.sandbox._network._pattern != shared


def test_nothing_of_it_is_left(sample_image: str) -> None:
    with DockerSandbox() as sandbox:
        DockerRunner(sandbox, sample_image)("true")
        pattern = sandbox._network._pattern
        assert sandbox.client.api.inspect_container(pattern)["Config"]["Labels"].items() >= sandbox._labels.items()
        client = sandbox.client
    with DockerSandbox(client) as sandbox:
        assert not sandbox.client.api.containers(all=True, filters={"id": pattern})
