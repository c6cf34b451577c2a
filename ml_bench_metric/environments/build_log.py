"""The log of a build: progress lines, what the steps print, and errors that end with the reason."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from ml_bench_metric.sandbox.docker_engine import one_line

Progress = Callable[[str], None]
"""Receives one line at the beginning and at the end of every step."""

LOOK_SECONDS = 0.2
"""How often a step that runs is looked at: whether its time is over, or the build is to stop."""

TAIL_LINES = 20
"""How many lines of the log an error shows."""


_ADVICE = (
    (
        r"no space left on device",
        "The disk is full: `ml-bench images prune` removes images that nothing needs, `docker system df` shows more",
    ),
    (
        r"do not match the hashes",
        "A package that came is not the one that requirements.txt names: look at the index, proxy or wheels that gave "
        "it (`pip config list`); if it was published anew, lock the requirements again (environments/README.md)",
    ),
    (
        r"\b429\b.*(client error|too many)|too many requests|toomanyrequests",
        "The server limits requests: wait some minutes, then the same command goes on where it stopped (a registry "
        "gives more after `docker login`, and --base bootstrap needs none)",
    ),
    (
        # In the words of: pip, apt, git, the engine, and ourselves.
        r"name resolution|max retries|failure resolving|(unable|failed) to connect|could not resolve|no such host|"
        r"connection (refused|timed out)|i/o timeout|handshake timeout|read timed out|said nothing for",
        "The network does not answer: proxies, certificates and pip's settings of this machine are passed on "
        "(`pip config list`); the same command goes on where it stopped",
    ),
)
"""What a step says when something outside fails, and what to do about it."""


class BuildError(RuntimeError):
    """An image could not be made. The message names the step, and ends with what the step said last."""


def writable(path: Path) -> IO[bytes]:
    """Return a file of the user's cache, opened for writing and empty.

    Raises:
        BuildError: it cannot be written, as after a build under another user.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")
    except OSError as error:
        raise BuildError(f"cannot write {path}: {error.strerror}; remove it, or set XDG_CACHE_HOME") from error


class BuildLog:
    """Everything that a build's steps print, in one file, and the progress lines of one image."""

    def __init__(self, path: Path, progress: Progress, title: str, stop: threading.Event | None = None) -> None:
        """Open the log.

        Args:
            path: of its file; what was there is lost.
            progress: receives the lines.
            title: begins every line.
            stop: lets another thread end the build: steps that run are ended, and none begins.

        Raises:
            BuildError: the file cannot be written.
        """
        self.path = path
        self._stop = stop or threading.Event()
        self._file = writable(path)
        self._progress = progress
        self._title = title

    def __enter__(self) -> BuildLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def ended(self, process_is_over: Callable[[float], bool], seconds: float) -> bool:
        """Wait for a step's end, and return whether it came in time.

        Args:
            process_is_over: waits for it as many seconds as it is given, and returns whether it came.
            seconds: time limit.

        Raises:
            BuildError: the build is to stop.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if process_is_over(LOOK_SECONDS):
                return True
            self.go_on()
        return False

    def go_on(self) -> None:
        """Do nothing.

        Raises:
            BuildError: the build is to stop.
        """
        if self._stop.is_set():
            raise BuildError(f"{self._title}: the build was stopped")

    def write(self, data: bytes) -> None:
        """Append what a step printed."""
        self._file.write(data)
        self._file.flush()

    def note(self, text: str) -> None:
        """Report something that is no step."""
        self._progress(f"{self._title}: {text}")
        self.write(f"{text}\n".encode())

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Report a step's beginning, and its end with the seconds that it took.

        Raises:
            BuildError: the engine refused something within the step, or the build is to stop.
        """
        self.go_on()
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        self._progress(f"{self._title}: {name} …")
        self.write(f"==> {name}\n".encode())
        start = time.monotonic()
        try:
            yield
        except (DockerException, RequestException) as error:
            raise self.error(name, f"the engine failed: {one_line(error)}") from error
        self._progress(f"{self._title}: {name}: done in {time.monotonic() - start:.1f} s")

    def error(self, step: str, reason: str) -> BuildError:
        """Report a step's failure, and return its error: what failed, where the log is, and its last 20 lines."""
        text = self.path.read_bytes().decode("utf-8", "replace").replace("\r", "\n")
        lines = [line for line in text.rpartition(f"==> {step}\n")[2].splitlines() if line.strip()]
        self._progress(f"{self._title}: {step}: {reason}")
        message = f"{self._title}: {step}: {reason}. The log is {self.path}"
        message += "".join(
            f". {advice}" for signs, advice in _ADVICE if re.search(signs, "\n".join((reason, *lines)), re.IGNORECASE)
        )
        if lines:
            message += "; it ends with:\n" + "\n".join("    " + line for line in lines[-TAIL_LINES:])
        return BuildError(message)

    def run(self, command: Sequence[str], *, seconds: float, environ: Mapping[str, str] | None = None) -> int:
        """Run a program of the host within a step, its output into the log, and return its status.

        Its environment variables are `environ`, by default those of this process. It is ended with all its children
        when the time is over, or when this process is interrupted.

        Raises:
            BuildError: the program is not installed, or not finished after `seconds`.
        """
        try:
            process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=self._file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise BuildError(
                f"{self._title}: {command[0]} is not installed (Debian, Ubuntu: apt-get install {command[0]})"
            ) from error

        def is_over(pause: float) -> bool:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(pause)
            return process.returncode is not None

        try:
            if not self.ended(is_over, seconds):
                raise BuildError(f"{self._title}: {' '.join(command)}: not finished after {seconds:.0f} s")
            return process.returncode
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
