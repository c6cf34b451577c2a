"""One candidate of the process sandbox: its folder, its supervisor, and what happened to it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ml_bench_metric.sandbox import process_host, process_overlay, process_supervisor
from ml_bench_metric.sandbox.capture import Capture
from ml_bench_metric.sandbox.cgroups import CgroupReader
from ml_bench_metric.sandbox.command_lines import CommandLines
from ml_bench_metric.sandbox.deleted_files import deleted_bytes
from ml_bench_metric.sandbox.disk_watch import DiskWatch
from ml_bench_metric.sandbox.docker_container import INSIDE_GRACE_SECONDS, program_bytes
from ml_bench_metric.sandbox.docker_engine import one_line
from ml_bench_metric.sandbox.execution import Execution, Outcome, Times
from ml_bench_metric.sandbox.process_cgroup import OF_SANDBOX, make_cgroup
from ml_bench_metric.sandbox.process_image import copy_repository, give_to
from ml_bench_metric.sandbox.process_supervisor import descendants
from ml_bench_metric.sandbox.protocol import Job, SandboxError, Slot, do_nothing
from ml_bench_metric.tasks import SCRIPT

if TYPE_CHECKING:
    from ml_bench_metric.sandbox.process_sandbox import ProcessSandbox

FOLDER_PREFIX = "ml-bench-process-"
OWNER_FILE = "owner"
"""File of a candidate's folder that says whose it is, as `docker_engine.owner` does."""

_START_SECONDS = 60.0
"""Deadline for the supervisor to say that the candidate can start."""

_KILL_SECONDS = 5.0
"""How long a run waits for all of a candidate's processes to be gone. The kernel takes longer only over what hangs in
it, and then the remover goes on waiting."""

_REMOVE_SECONDS = 60.0
_SAMPLE_SECONDS = 0.05
_WATCH_SECONDS = 0.25
"""How often the sum of the memory is measured where no cgroup limits it."""
_HELD_UP_SECONDS = 1.0
"""How late a time limit may be noticed, as in `docker_sandbox`."""

_BASH = "ml_bench_candidate.sh"
_PYTHON = "ml_bench_candidate.py"
_LOST = "the process that watches over the candidate has ended"
_READ_BYTES = 1 << 18


class ProcessPrepared:
    """A process that has its limits, its user and its folder, and waits to become the candidate."""

    def __init__(self, sandbox: ProcessSandbox, job: Job, slot: Slot, digest: str, image: Path) -> None:
        """Make the copy, and start the process.

        Raises:
            SandboxError: it cannot be made; nothing is left.
        """
        began = time.monotonic()
        self._sandbox, self._job, self._digest = sandbox, job, digest
        self._captures = (Capture(job.limits.kept_bytes), Capture(job.limits.kept_bytes))
        self._events: dict[str, Any] = {}
        self._said = b""
        self._lock = threading.Lock()
        self._running = self._discarded = self._handed = False
        self._ready_seconds: float | None = None
        self._commands: CommandLines | None = None
        self._disk = DiskWatch(self._written_bytes, job.limits.disk_bytes)
        try:
            self._folder = sandbox.make_folder()
        except OSError as error:
            raise SandboxError(f"no folder could be made for a candidate: {error}") from error
        self._cgroup = make_cgroup(self._folder.name, job.limits, slot)
        reading, writing = os.pipe()
        try:
            # With nothing of this process's environment: a candidate of the same user could read it from there.
            self._supervisor: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-I", "-S", process_supervisor.__file__, str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(writing,),
                start_new_session=True,
                cwd="/",
                env={},
            )
        except BaseException:
            os.close(reading)
            self._cgroup.remove()
            process_host.remove_all([self._folder])
            raise
        finally:
            os.close(writing)
        self._own_uid = process_host.own_uid(self._supervisor.pid) if sandbox.own_users else None
        self._files: dict[int, Capture | None] = {
            _pipe(self._supervisor.stdout).fileno(): self._captures[0],
            _pipe(self._supervisor.stderr).fileno(): self._captures[1],
            reading: None,
        }
        self._pipes: list[IO[bytes]] = [
            _pipe(self._supervisor.stdout),
            _pipe(self._supervisor.stderr),
            os.fdopen(reading, "rb", buffering=0),
        ]
        try:
            self._start(slot, image)
            self._usage = CgroupReader(self._events["ready"], self._folder.name)
            if job.form == "run.sh":
                supervisor = self._supervisor.pid
                self._commands = CommandLines(lambda: descendants(supervisor), self._events["ready"])
            # What starting it cost is not the candidate's.
            self._idle = self._usage.read()
            self._disk_before = process_host.disk_bytes([self._folder]) or 0
        except BaseException as error:
            self.discard()
            if isinstance(error, OSError):
                raise SandboxError(f"no process could be made for a candidate: {error}") from error
            raise
        self._start_seconds = time.monotonic() - began

    def discard(self) -> None:
        """See `Prepared.discard`. From another thread it ends a run that is under way."""
        with self._lock:
            self._discarded = True
            # A run that is under way sees it within a moment, and hands over itself.
            running = self._running
        if not running:
            self._hand_over()

    def run(self, freed: Callable[[], None] = do_nothing) -> Execution:
        """See `Prepared.run`."""
        with self._lock:
            self._running = not self._discarded
        began = time.monotonic()
        outcome: Outcome
        reason = ""
        try:
            outcome, status = self._follow(began)
            ended = time.monotonic()
            self._stop()
            if "gone" in self._events:
                freed()
            if outcome in ("exited", "killed"):
                outcome, status = self._of_status(began)
        except Exception as error:
            outcome, status, ended = "environment_error", None, time.monotonic()
            reason = f"the sandbox failed while the candidate ran: {one_line(error)}"
        self._disk.stop()
        usage = self._usage.last
        cpu_seconds = self._events.get("cpu_seconds")
        if usage.cpu_seconds is not None and self._idle.cpu_seconds is not None:
            cpu_seconds = max(0.0, usage.cpu_seconds - self._idle.cpu_seconds)
        with self._lock:
            self._running = False
        self._hand_over()
        return Execution(
            outcome=outcome,
            status=status,
            times=Times(start=self._start_seconds, run=ended - began, teardown=time.monotonic() - ended),
            cpu_seconds=cpu_seconds,
            ready_seconds=self._ready_seconds,
            peak_memory_bytes=usage.peak_memory_bytes or self._events.get("peak_bytes"),
            oom_kills=usage.oom_kills,
            stdout=self._captures[0].output(),
            stderr=self._captures[1].output(),
            image=self._digest,
            reason=reason,
            commands=self._commands.seen if self._commands is not None else (),
        )

    def remove(self) -> None:
        """End what is left of the candidate and remove its files; the folder's owner label lets a later run sweep."""
        self._end_supervisor()
        for pipe in self._pipes:
            pipe.close()
        left = [self._folder]
        if self._own_uid is not None:
            if "gone" not in self._events:
                process_host.kill_user(self._own_uid)
            left += process_host.left_open(self._own_uid)
            process_host.remove_ipc(self._own_uid)
        process_host.remove_all(left)
        self._cgroup.remove()

    def _hand_over(self) -> None:
        """Have the sandbox remove this, once."""
        with self._lock:
            handed, self._handed = self._handed, True
        if not handed:
            self._sandbox.remove_later(self)

    def _start(self, slot: Slot, image: Path) -> None:
        """Fill the folder, and start the process that becomes the candidate."""
        job, folder = self._job, self._folder
        workspace, home, temporary, programs = (folder / name for name in ("workspace", "home", "tmp", "bin"))
        for one in (workspace, home, temporary, programs):
            one.mkdir()
        working_folder = copy_repository(image, job.working_folder, workspace)
        if job.overlay is not None:
            process_overlay.apply(job.overlay, workspace, working_folder.relative_to(workspace).parts[0])
        program = _place_of_program(job, temporary, working_folder)
        try:
            program.write_bytes(program_bytes(job))
        except OSError as error:
            raise SandboxError(f"the candidate's program cannot be stored: {error}") from error
        for name in ("python", "python3"):
            # No link: a virtual environment is found by the path of its python.
            wrapper = programs / name
            wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(self._sandbox.python.path)} "$@"\n', encoding="utf-8")
            wrapper.chmod(0o755)
        if self._own_uid is not None:
            for one in (workspace, home, temporary):
                give_to(one, self._own_uid)
                one.chmod(0o700)
        programs_here = self._sandbox.programs
        bash = programs_here["bash"]
        runs = [bash, str(program)] if program.parent == temporary else [bash, program.name]
        if job.language == "python":
            runs[0] = self._sandbox.python.path
        self._send(
            {
                # Above it, as in a container, stands `timeout`: the candidate's own user can kill it, and then it has
                # killed itself. Its limit is for the case that nobody else keeps one any more.
                "command": [
                    programs_here["timeout"],
                    *("--foreground", "--signal=KILL", f"{job.limits.seconds + INSIDE_GRACE_SECONDS:.3f}"),
                    *runs,
                ],
                "needs": [bash, self._sandbox.python.path],
                "environment": {
                    "PATH": f"{programs}:{process_host.PATH}",
                    "HOME": str(home),
                    "TMPDIR": str(temporary),
                    "LANG": "C.UTF-8",
                    **job.variables,
                },
                "folder": str(working_folder),
                "cgroups": self._cgroup.entrances,
                "rlimits": self._rlimits(),
                "cpus": list(slot.cpus),
                "uid": self._own_uid,
            }
        )
        end = time.monotonic() + _START_SECONDS
        while "ready" not in self._events:
            self._read(_SAMPLE_SECONDS)
            if "failed" in self._events or self._is_over():
                raise SandboxError(f"the sandbox cannot run a candidate: {self._events.get('failed', _LOST)}")
            if time.monotonic() > end:
                raise SandboxError(f"a started process was not ready after {_START_SECONDS:.0f} s")

    def _rlimits(self) -> dict[str, int]:
        limits = self._job.limits
        others = process_host.tasks_of(os.geteuid()) if self._own_uid is None else 0
        return {
            "RLIMIT_CORE": 0,
            "RLIMIT_FSIZE": limits.disk_bytes,
            # The kernel counts all processes and threads of a user.
            "RLIMIT_NPROC": limits.processes + OF_SANDBOX + others,
            # For one process, whose threads may be as many as its CPUs.
            "RLIMIT_CPU": math.ceil((limits.seconds + INSIDE_GRACE_SECONDS) * max(limits.cpus, os.cpu_count() or 1)),
            **({} if self._cgroup.limits_memory else {"RLIMIT_DATA": limits.memory_bytes}),
        }

    def _follow(self, began: float) -> tuple[Outcome, int | None]:
        """Let the candidate begin, then read output and usage until it ends or meets a limit."""
        limits = self._job.limits
        deadline = began + limits.seconds
        next_memory = began
        self._disk.start()
        # Where it has ended, the end of its words says so.
        with contextlib.suppress(BrokenPipeError):
            os.write(_pipe(self._supervisor.stdin).fileno(), b"begin\n")
        while True:
            now = time.monotonic()
            if self._discarded:
                raise SandboxError("the candidate was removed before it ended")
            if "status" in self._events:
                return "exited", None
            if "failed" in self._events or self._is_over():
                raise SandboxError(self._events.get("failed", _LOST))
            if now >= deadline:
                return self._still_running(began)
            self._read(min(_SAMPLE_SECONDS, deadline - now, (now - began) / 10))
            self._usage.read()
            if self._commands is not None:
                self._commands.look()
            if sum(capture.bytes for capture in self._captures) > limits.output_bytes:
                return "output_limit", None
            if not self._cgroup.limits_memory and now >= next_memory:
                if process_host.resident_bytes(descendants(self._supervisor.pid)) > limits.memory_bytes:
                    return "out_of_memory", None
                next_memory = now + _WATCH_SECONDS
            if self._disk.is_full():
                return "disk_full", None

    def _stop(self) -> None:
        """Kill all of the candidate, wait until it is gone, and take the output that it has left."""
        with contextlib.suppress(OSError):
            _pipe(self._supervisor.stdin).close()
        end = time.monotonic() + _KILL_SECONDS
        while "gone" not in self._events and not self._is_over() and time.monotonic() < end:
            self._read(_SAMPLE_SECONDS)
        end = time.monotonic() + _HELD_UP_SECONDS
        while "gone" in self._events and self._files and time.monotonic() < end:
            self._read(_SAMPLE_SECONDS)
        self._usage.read()

    def _read(self, seconds: float) -> None:
        """Take what is there of output and of the supervisor's words, waiting no longer than that for any."""
        poll = select.poll()
        for number in self._files:
            poll.register(number, select.POLLIN)
        for number, _ in poll.poll(max(1, math.ceil(seconds * 1000))):
            data = os.read(number, _READ_BYTES)
            capture = self._files[number]
            if not data:
                del self._files[number]
            elif capture is not None:
                capture.feed(data)
            else:
                *lines, self._said = (self._said + data).split(b"\n")
                for line in lines:
                    self._events.update(json.loads(line))

    def _is_over(self) -> bool:
        """Whether the supervisor has nothing more to say."""
        return None not in self._files.values()

    def _send(self, job: dict[str, Any]) -> None:
        stdin = _pipe(self._supervisor.stdin)
        stdin.write(json.dumps({**job, "own_uid": self._own_uid}).encode() + b"\n")
        stdin.flush()

    def _still_running(self, began: float) -> tuple[Outcome, None]:
        late = time.monotonic() - began - self._job.limits.seconds
        if late > _HELD_UP_SECONDS:
            raise SandboxError(
                f"this process was held up until {late:.1f} s after the candidate's time limit: what the candidate did "
                "by then is not known"
            )
        self._ready_seconds = process_host.ready_seconds(descendants(self._supervisor.pid))
        return "still_running", None

    def _of_status(self, began: float) -> tuple[Outcome, int | None]:
        """Return how a candidate ended, by what the supervisor has seen."""
        if self._events["seconds"] > self._job.limits.seconds:
            return self._still_running(began)
        status = int(self._events["status"])
        if status < 0:
            status = 128 - status
        if status and self._usage.last.oom_kills:
            return "out_of_memory", status
        # A program that returns such a status could be told apart here, but must end here as it does in a container.
        if 128 < status <= 128 + 64:
            return "killed", status
        return "exited", status

    def _written_bytes(self) -> int | None:
        """Return how much the candidate has written, with deleted files that are still open; None if not known."""
        places = [self._folder, *(process_host.left_open(self._own_uid) if self._own_uid is not None else ())]
        size = process_host.disk_bytes(places)
        if size is None:
            return None
        return max(0, size - self._disk_before) + deleted_bytes(descendants(self._supervisor.pid))

    def _end_supervisor(self) -> None:
        with contextlib.suppress(OSError):
            _pipe(self._supervisor.stdin).close()
        end = time.monotonic() + _REMOVE_SECONDS
        while self._supervisor.poll() is None and time.monotonic() < end:
            # It may have something to say first.
            self._read(_SAMPLE_SECONDS)
        if self._supervisor.poll() is None:
            self._supervisor.kill()
        self._supervisor.wait()


def _place_of_program(job: Job, temporary: Path, working_folder: Path) -> Path:
    """Return where a candidate's program is stored; what an overlay has there is gone.

    Raises:
        SandboxError: an overlay has made something else of the working folder.
    """
    if working_folder.is_symlink() or not working_folder.is_dir():
        raise SandboxError(f"the overlay leaves no folder {job.working_folder}")
    if job.form == "run.sh":
        process_overlay.remove(working_folder / SCRIPT)
        return working_folder / SCRIPT
    return temporary / _BASH if job.language == "bash" else working_folder / _PYTHON


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """Return one of the streams that were asked for when the supervisor was started."""
    assert stream is not None
    return stream
