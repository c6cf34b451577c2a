"""What an agent's programs reach the proxy by: any Python can run it, and it passes both ways."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from ml_bench_solvers.agents import relay
from ml_bench_solvers.agents.allowed_hosts import AllowedHosts
from ml_bench_solvers.agents.proxy import Proxy


def start(folder: Path, port: int) -> subprocess.CompletedProcess[str]:
    program = relay.PROGRAM.replace(relay.MOUNT, str(folder)).replace(str(relay.PORT), str(port))
    # A session of its own to be found by: the relay leaves the process that starts it.
    program = program.replace("os.setsid()", "os.setsid(); open('pid', 'w').write(str(os.getpid()))")
    path = folder / "work"
    path.mkdir(exist_ok=True)
    command = ["bash", "-c", relay.START, "ml-bench", program]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    return subprocess.run(command, cwd=path, env=environment, capture_output=True, text=True, timeout=30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def test_it_passes_both_ways_to_the_proxy_and_listens_when_it_has_started() -> None:
    with contextlib.closing(Proxy(AllowedHosts.parse(["example.org"]), lambda facts: None)) as proxy:
        port = free_port()
        started = start(proxy.folder, port)
        assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
        try:
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
                    one.sendall(b"CONNECT other.test:443 HTTP/1.1\r\n\r\n")
                    found = b""
                    while data := one.recv(65536):
                        found += data
                    assert found.startswith(b"HTTP/1.1 403 ") and found.endswith(b"not on the list: example.org\n")
        finally:
            os.kill(int((proxy.folder / "work" / "pid").read_text()), signal.SIGKILL)


def test_without_a_proxy_it_does_not_start(tmp_path: Path) -> None:
    started = start(tmp_path, free_port())
    assert started.returncode == 1 and "FileNotFoundError" in started.stderr.splitlines()[-1]


def test_an_image_without_python_is_told(tmp_path: Path) -> None:
    command = ["/bin/bash", "-c", relay.START, "ml-bench", relay.PROGRAM]
    started = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=30)
    assert (started.returncode, started.stderr) == (1, "the image has no python, which the network needs\n")
