"""The process that watches over one candidate of the process sandbox: it starts it, waits for it, and kills all of it.

It is run by its path, with `-I -S`, as a process of its own, so that it can be the subreaper of whatever a candidate
leaves behind: nothing can get away by forking twice, as the kernel hands every orphan below it to it. It imports the
standard library alone. Standard input is its channel from the sandbox: a line of JSON says what to start, a second line
lets it begin, and the end of the channel, also by the death of the sandbox, ends everything. Standard output and error
are the candidate's. What happens is written, a line of JSON each, to the descriptor that its argument names, which the
candidate does not have.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_LAST_CAPABILITY = 63
_KEYCTL = {"x86_64": 250, "aarch64": 219}
"""Number of the system call by machine; the C library has no name for it."""
_KEYCTL_JOIN_SESSION_KEYRING = 1

_TURN_SECONDS = 0.002
"""How long to wait between two looks for processes that are left."""


def descendants(pid: int, proc: Path = Path("/proc")) -> dict[int, str]:
    """Return the processes below one that have not ended -> when each began, parents before children."""
    children: dict[int, list[int]] = {}
    began: dict[int, str] = {}
    for entry in os.scandir(proc):
        if entry.name.isdigit() and (facts := _facts(int(entry.name), proc)):
            state, parent, began[int(entry.name)] = facts
            if state != "Z":
                children.setdefault(int(parent), []).append(int(entry.name))
    found = list(children.get(pid, ()))
    for one in found:
        found.extend(children.get(one, ()))
    return {one: began[one] for one in found}


def _facts(pid: int, proc: Path = Path("/proc")) -> tuple[str, str, str] | None:
    """Return a process's state, its parent and when it began; None if there is none of that number."""
    try:
        # The command's name may hold blanks and brackets: the fields are counted behind the last bracket.
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], fields[1], fields[19]
    except (OSError, IndexError):
        return None


def kill_all(uid: int | None) -> None:
    """Kill every process below this one, and reap it.

    Args:
        uid: of the candidate, where nobody else has it: one call then kills all of its processes at once, so that none
            can fork in between, and nobody else's. None where others have it too: each is stopped first, and killed
            when all stand still.
    """
    if uid is not None:
        _kill_user(uid)
        _reap(0)
        return
    stopped: set[tuple[int, str]] = set()
    while new := _certain() - stopped:
        _signal(new, signal.SIGSTOP)
        stopped |= new
    _signal(_certain(), signal.SIGKILL)
    while _reap(os.WNOHANG):
        time.sleep(_TURN_SECONDS)
        _signal(_certain(), signal.SIGKILL)


def _reap(options: int) -> bool:
    """Take note of the processes below this one that have ended; return whether there are others."""
    try:
        while os.waitpid(-1, options)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _certain() -> set[tuple[int, str]]:
    """Return the processes below this one with when each began, but for such as may be somebody else's.

    While they are looked for, one can end and its number be given to a stranger, whose children would seem to be its
    own. Who is found twice is no stranger.
    """
    return set(descendants(os.getpid()).items() & descendants(os.getpid()).items())


def _signal(found: Iterable[tuple[int, str]], number: int) -> None:
    for pid, began in found:
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            # Now the number cannot change hands any more.
            if (facts := _facts(pid)) and facts[2] == began:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            continue
        finally:
            os.close(handle)


def _kill_user(uid: int) -> None:
    """Kill all processes of a user."""
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class _Supervisor:
    def __init__(self, events: int) -> None:
        self._events = events
        self._begun = self._ended = 0.0

    def run(self) -> None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # Another process of the same user could take over its descriptors otherwise.
        _prctl(_PR_SET_DUMPABLE, 0)
        if os.uname().machine in _KEYCTL:
            # The keys of whoever started this are not the candidate's. A kernel without keys refuses, and has none.
            ctypes.CDLL(None).syscall(_KEYCTL[os.uname().machine], _KEYCTL_JOIN_SESSION_KEYRING, None)
        os.set_inheritable(self._events, False)
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        job = json.loads(self._line())
        failure, failed = os.pipe()
        go_on, goes = os.pipe()
        candidate = os.fork()
        if candidate == 0:
            for number in (failure, goes, woken, wakes, self._events):
                os.close(number)
            _become_candidate(job, go_on, failed)
        os.close(failed)
        os.close(go_on)
        said = os.read(failure, 4096).decode("utf-8", "replace")
        if said != "ready":
            self._tell(failed=said or "it ended at once")
            kill_all(job["own_uid"])
            return
        self._tell(ready=candidate)
        if self._line():
            self._begun = time.monotonic()
            os.write(goes, b"x")
            self._wait(candidate, woken, failure)
        kill_all(job["own_uid"])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._tell(gone=True, cpu_seconds=used.ru_utime + used.ru_stime, peak_bytes=used.ru_maxrss * 1024)

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            # One byte at a time, so that nothing of the next line is taken; lines are short.
            byte = os.read(0, 1)
            if not byte:
                return b""
            line += byte
        return line

    def _wait(self, candidate: int, woken: int, failure: int) -> None:
        """Wait until the candidate has ended or is to end; reap what comes along."""
        while True:
            ready = select.select([0, woken], [], [])[0]
            if 0 in ready:
                return
            os.read(woken, 4096)
            while True:
                try:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    break
                if pid == candidate:
                    seconds = time.monotonic() - self._begun
                    said = os.read(failure, 4096).decode("utf-8", "replace")
                    if said:
                        self._tell(failed=said)
                    else:
                        self._tell(status=os.waitstatus_to_exitcode(status), seconds=seconds)
                    return
                if pid == 0:
                    break

    def _tell(self, **event: object) -> None:
        try:
            os.write(self._events, json.dumps(event).encode() + b"\n")
        except BrokenPipeError:
            # The sandbox is gone; there is nobody left to tell.
            return


def _become_candidate(job: Mapping[str, Any], go_on: int, failed: int) -> NoReturn:
    """Take the candidate's place: its limits, its user and its folder; then wait, and execute it."""
    try:
        signal.set_wakeup_fd(-1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Not a session: then its group would be an orphaned one, in which the terminal's stop signals do nothing.
        os.setpgid(0, 0)
        # Only now, without the supervisor's descriptors; files in /proc are closed to their own process otherwise.
        _prctl(_PR_SET_DUMPABLE, 1)
        for path in job["cgroups"]:
            Path(path).write_text("0", encoding="ascii")
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")
        for name, value in job["rlimits"].items():
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))
        if job["cpus"]:
            os.sched_setaffinity(0, job["cpus"])
        if job["uid"] is not None:
            for capability in range(_LAST_CAPABILITY + 1):
                _prctl(_PR_CAPBSET_DROP, capability)
            os.setgroups([])
            os.setresgid(job["uid"], job["uid"], job["uid"])
            os.setresuid(job["uid"], job["uid"], job["uid"])
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.umask(0o022)
        os.chdir(job["folder"])
        for program in job["needs"]:
            if not os.access(program, os.X_OK):
                raise OSError(f"user {os.getuid()} cannot execute {program}")
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.write(failed, b"ready")
        if not os.read(go_on, 1):
            os._exit(1)
        os.execve(job["command"][0], job["command"], job["environment"])
    except BaseException as error:
        os.write(failed, str(error).encode("utf-8", "replace")[:4000])
    finally:
        os._exit(127)


if __name__ == "__main__":
    _Supervisor(int(sys.argv[1])).run()
