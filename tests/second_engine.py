"""A Docker engine of a test's own, to be stopped, killed, filled up and cut off; nothing of it is left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from docker import DockerClient

_START_SECONDS = 30.0
_STOP_SECONDS = 30.0


class SecondEngine:
    """A `dockerd` with folders of its own, without any network."""

    def __init__(self, root: Path, data: Path) -> None:
        self.root, self.data = root, data
        self.socket = root / "docker.sock"
        self.host = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        # A killed one leaves these files, and the next one does not start while any process has their numbers: in a
        # machine whose first process reaps none, for ever.
        pid_file = self.root / "docker.pid"
        containerd = self.root / "exec" / "containerd" / "containerd.pid"
        if containerd.exists():
            _await_end(int(containerd.read_text()))
        for left in (pid_file, containerd):
            left.unlink(missing_ok=True)
        command = ["dockerd", "--host", self.host, "--data-root", str(self.data), "--pidfile", str(pid_file)]
        command += ["--exec-root", str(self.root / "exec"), "--bridge=none", "--iptables=false"]
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--storage-driver=overlay2"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the second engine: {(self.root / 'log').read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal, and wait until it has ended."""
        if self._process is not None:
            self._process.send_signal(number)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def client(self) -> DockerClient:
        import docker

        return docker.DockerClient(base_url=self.host, timeout=30, max_pool_size=32)

    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            ["docker", "--host", self.host, *arguments], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    def load(self, archive: Path) -> None:
        self.command("load", "--input", str(archive))

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(5)
            try:
                asked.connect(str(self.socket))
                asked.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b" 200 " in asked.recv(64)
            except OSError:
                return False


def _end_shims(root: Path) -> None:
    """End what keeps the containers of a killed engine: the next one does not always find it again."""
    for process in Path("/proc").glob("[0-9]*"):
        # Gone meanwhile, or no longer what it was.
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
            if "shim" in arguments[0] and any(argument.startswith(f"{root}/") for argument in arguments):
                os.kill(int(process.name), signal.SIGKILL)


def _await_end(pid: int) -> None:
    """Wait until a process runs no more, which ends when its parent does; it may stay as a zombie."""
    end = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.02)


@contextlib.contextmanager
def second_engine(disk_bytes: int | None = None) -> Iterator[SecondEngine]:
    """Give an engine that runs.

    Args:
        disk_bytes: size of a disk that is the engine's alone; None for a folder on this machine's.

    Raises:
        RuntimeError: it does not start; the message has its words.
    """
    # Not pytest's folder: a Unix socket's path may have 107 characters.
    root = Path(tempfile.mkdtemp(prefix="ml-bench-engine-"))
    engine = SecondEngine(root, root / "data")
    try:
        engine.data.mkdir()
        if disk_bytes is not None:
            image = root / "disk"
            with image.open("wb") as file:
                file.truncate(disk_bytes)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
            subprocess.run(["mount", "-o", "loop", str(image), str(engine.data)], check=True)
        engine.start()
        yield engine
    finally:
        with contextlib.suppress(Exception):
            # Also what ran on while an engine was killed.
            if left := engine.command("ps", "--all", "--quiet").split():
                engine.command("rm", "--force", *left)
        engine.stop()
        _end_shims(root)
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
        for mount in sorted((mount for mount in mounts if mount.startswith(f"{root}/")), reverse=True):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(root)


class Gate:
    """A socket in front of an engine, which can stop forwarding, and which waits for an engine that is not there.

    The latter is what systemd's socket does while the service restarts.
    """

    def __init__(self, engine: SecondEngine) -> None:
        self._engine = engine.socket
        self._path = engine.root / "gate.sock"
        self.host = f"unix://{self._path}"
        self._open = threading.Event()
        self._open.set()
        self._closed = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        """Accept, and never answer."""
        self._open.clear()

    def close(self) -> None:
        self._closed = True
        self._open.set()
        # Closing alone does not wake the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._path.unlink()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            while True:
                try:
                    server.connect(str(self._engine))
                    break
                except OSError:
                    if self._closed:
                        return
                    time.sleep(0.05)
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._open.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def missing() -> str:
    """Return why no second engine can be had on this machine; empty where it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a second engine needs root on Linux"
    lacking = [program for program in ("dockerd", "docker", "mkfs.ext4", "mount") if shutil.which(program) is None]
    return f"no {', '.join(lacking)} on this machine" if lacking else ""


def skip(reason: str) -> None:
    """Skip a test, and say so where it cannot be overlooked."""
    print(f"FAULTS OF THE ENGINE ARE NOT TESTED: {reason}", file=sys.__stderr__)
    pytest.skip(f"the tests on faults of the engine did NOT run: {reason}")
