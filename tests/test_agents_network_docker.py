"""An agent with a list of hosts: its container reaches them through the proxy, and nothing else in any way."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_solvers.agents.allowed_hosts import AllowedHosts
from ml_bench_solvers.agents.docker_workspace import Site, require_network
from ml_bench_solvers.agents.trajectory import NETWORK, read_steps
from tests.test_agents_cli import agent
from tests.test_agents_workspace_docker import opened, workspaces

pytestmark = pytest.mark.docker

HOST = "127.0.0.2"
"""Loopback too, but none of the names for which programs are told to use no proxy."""


@pytest.fixture
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A web server of this machine, which has `/file`."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "file").write_text("from outside")
    with ThreadingHTTPServer((HOST, 0), partial(SimpleHTTPRequestHandler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def site(*entries: str) -> Site:
    return Site(network="allowlist", allowed=AllowedHosts.parse(entries))


def fetch(url: str) -> str:
    return (
        "python3 - <<'END'\nimport urllib.request, urllib.error\ntry:\n"
        f"    print(urllib.request.urlopen('{url}', timeout=20).read().decode())\n"
        "except urllib.error.HTTPError as error:\n    print(error.code, error.read().decode())\nEND"
    )


def direct(address: str, port: int) -> str:
    return f"timeout 5 bash -c ': < /dev/tcp/{address}/{port}' 2> /dev/null && echo reached || echo not reached"


def test_the_hosts_of_the_list_are_reached_and_no_other_and_nothing_is_left(
    docker_sandbox: DockerSandbox, sample_image: str, tmp_path: Path, port: int
) -> None:
    ours = site(f"{HOST}:{port}", "example.invalid")
    require_network(docker_sandbox.client, ours, sample_image)
    with opened(docker_sandbox, sample_image, tmp_path, site=ours) as workspace:
        assert workspace.exec(fetch(f"http://{HOST}:{port}/file")).output == "from outside\n"
        refused = workspace.exec(fetch("http://other.invalid/file")).output
        assert refused.startswith("403 ml-bench: not on the list: ") and f"{HOST}:{port}" in refused
        assert workspace.exec(fetch("http://169.254.169.254/")).output.startswith("403 ")
        assert workspace.exec(fetch("http://example.invalid/")).output.startswith("502 ")
        for address, number in ((HOST, port), ("1.1.1.1", 53)):
            assert workspace.exec(direct(address, number)).output == "not reached\n"
        assert workspace.exec("tail -n +3 /proc/net/dev | cut -d: -f1 | xargs; id -u").output == "lo\n1000\n"
        assert workspace.exec("rm -f /dev/ml-bench/proxy; touch /dev/ml-bench/x; ls /dev/ml-bench").output.endswith(
            "\nproxy\n"
        )
        workspace._kill_all()
        assert workspace.exec(fetch(f"http://{HOST}:{port}/file")).output == "from outside\n", "it is started again"
        workspace.exec("pkill -u 1000 python3 || kill -9 -1")
        assert "from outside" not in workspace.exec(fetch(f"http://{HOST}:{port}/file")).output
        assert workspace._proxy is not None
        folder = workspace._proxy.folder.parent
        changes = workspace.changes(tmp_path / "changes.tar")
        assert not any("ml-bench" in line for line in changes.dropped)
    assert workspaces() == [] and not folder.exists()
    told = [step for step in read_steps(tmp_path / "trajectory.jsonl") if step["kind"] == NETWORK]
    assert [(step["host"], step["allowed"]) for step in told] == [
        (HOST, True),
        *((host, False) for host in ("other.invalid", "169.254.169.254", "example.invalid")),
        (HOST, True),
    ]


def test_an_engine_elsewhere_is_refused(
    docker_sandbox: DockerSandbox, sample_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_engine, "is_local", lambda client: False)
    with pytest.raises(SandboxError, match="needs an engine on this machine"):
        require_network(docker_sandbox.client, site("example.org"), sample_image)
    require_network(docker_sandbox.client, Site(), sample_image)


def test_the_list_is_told_with_the_run_and_judging_has_none_of_it(tmp_path: Path, sample_image: str, port: int) -> None:
    judged = '[ -z "$http_proxy$https_proxy$HTTP_PROXY$HTTPS_PROXY" ] && [ ! -e /dev/ml-bench ]'
    work = f"({fetch(f'http://{HOST}:{port}/file')}\n) > got; grep -q outside got && echo '{judged}' > run.sh"
    options = ("--agent", "command", "--inside", "--command", work, "--label", "x", "--repositories", "tiny-text")
    network = ("--network", "allowlist", "--allow", "b.invalid", "--allow", f"{HOST}:{port}")
    numbers, _ = agent(tmp_path, *options, *network)
    assert numbers["overall"]["success"]["original"]["value"] == 1.0
    allowed = [f"{HOST}:{port}", "b.invalid"]
    assert (numbers["network"], numbers["allowed"]) == ("allowlist", allowed)
    (one, *_) = sorted((tmp_path / "run" / "tasks").glob("*/*/*/agent.json"))
    assert json.loads(one.read_text())["allowed"] == allowed
    _, said = agent(tmp_path, *options, *network[:4], expected=2)
    assert "another run" in said
