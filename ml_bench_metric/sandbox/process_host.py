"""The machine under the process sandbox: its Python, its users, and what a candidate leaves in places open to all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ml_bench_metric.sandbox.protocol import SandboxError

PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where a candidate's programs are looked for, behind the folder that has its `python`."""

PYTHON_VARIABLE = "ML_BENCH_PROCESS_PYTHON"
"""Environment variable that names another Python for the candidates than the one that runs this."""

_OPEN_PLACES = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/dev/mqueue"), Path("/run/lock"))
"""Where every user of a machine may write."""

_OTHERS = ("/usr/local/bin/python3", "/usr/bin/python3")

_FIRST_UID = 1_880_000_000
"""To it the supervisor's process number is added: a user whom no candidate that runs now shares. Nobody else has these:
they lie behind those that systemd gives to containers, which are the last that are given to anybody. Source:
systemd's "Users, Groups, UIDs and GIDs on systemd Systems"."""

_DESCRIBE = (
    "import importlib.metadata as m, platform, sys\n"
    "print(sys.version, platform.machine(), sorted({f'{d.name} {d.version}' for d in m.distributions()}))"
)
_DESCRIBE_SECONDS = 60.0
_MEASURE_SECONDS = 60.0

_REMOVE = 0
"""`IPC_RMID` of the calls that control System V objects."""


@dataclass(frozen=True)
class Python:
    """An interpreter that candidates can execute."""

    path: str
    description: str
    """Its version, its machine and its packages, for a fingerprint."""
    note: str = ""
    """What a person should know of the choice; empty where there is nothing to say."""


def gives_users() -> bool:
    """Return whether this process can give each candidate a user of its own, as root can.

    Raises:
        SandboxError: it is root, of a user namespace that lacks those users: candidates would be root too.
    """
    if os.geteuid() != 0:
        return False
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    last = _FIRST_UID + 2**22
    if not any(int(first) <= _FIRST_UID and last < int(first) + int(count) for first, _, count in ranges):
        raise SandboxError(
            "the process sandbox cannot give candidates users of their own in this user namespace, and never runs them "
            "as root: run it as an ordinary user"
        )
    return True


def own_uid(supervisor: int) -> int:
    """Return the user of the candidate that a process supervises."""
    return _FIRST_UID + supervisor


def find_python(own_user: bool) -> Python:
    """Return the Python that candidates get: the one that `PYTHON_VARIABLE` names, else this one, else the system's.

    Args:
        own_user: whether candidates have users of their own, who may not be able to reach this one.

    Raises:
        SandboxError: there is none that they can execute.
    """
    asked = os.environ.get(PYTHON_VARIABLE)
    for path in [asked] if asked else [sys.executable, *_OTHERS]:
        description = _describe(path, own_user)
        if description is not None:
            here = asked or path == sys.executable
            note = f"candidates cannot reach {sys.executable}; they get {path}, without this one's packages"
            return Python(path, description, "" if here else note)
    raise SandboxError(
        f"candidates cannot execute {asked or sys.executable}: name a Python that every user can reach in "
        f"{PYTHON_VARIABLE}"
    )


def _describe(python: str, own_user: bool) -> str | None:
    user = _FIRST_UID if own_user else None
    try:
        done = subprocess.run(
            [python, "-I", "-c", _DESCRIBE],
            cwd="/",
            env={"PATH": PATH},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DESCRIBE_SECONDS,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return f"{python} {done.stdout.strip()}" if done.returncode == 0 else None


def tasks_of(uid: int) -> int:
    """Return how many processes and threads a user has."""
    count = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                count += sum(1 for _ in os.scandir(f"{entry.path}/task"))
    return count


def ready_seconds(pids: Iterable[int]) -> float:
    """Return the longest time that a thread of some processes was running or ready to run; see `CgroupReader`."""
    longest = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError):
                ran, waited = path.read_text(encoding="ascii").split()[:2]
                longest = max(longest, int(ran) + int(waited))
    return longest * 1e-9


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the memory of some processes that they share with nobody."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            resident, shared = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1:3]
            pages += int(resident) - int(shared)
    return pages * os.sysconf("SC_PAGE_SIZE")


def disk_bytes(folders: Iterable[Path]) -> int | None:
    """Return how much disk some folders take up, however deep they are; None where looking takes too long.

    Raises:
        SandboxError: it cannot be measured.
    """
    try:
        # A path of any depth, and files that vanish on the way, are nothing to du of GNU; its status then is not 0.
        done = subprocess.run(
            ["du", "-scxB1", "--", *map(str, folders)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": PATH, "LC_ALL": "C"},
            timeout=_MEASURE_SECONDS,
        )
        return int(done.stdout.split(b"\n")[-2].split()[0])
    except subprocess.TimeoutExpired:
        return None
    except (OSError, ValueError, IndexError) as error:
        raise SandboxError(f"the candidate's files could not be measured with du: {error}") from error


def kill_user(uid: int) -> None:
    """Kill every process of a user that only one candidate has."""
    subprocess.run(["bash", "-c", "kill -KILL -1"], user=uid, group=uid, extra_groups=[], cwd="/", env={"PATH": PATH})


def left_open(uid: int) -> Iterator[Path]:
    """Yield the files and folders of a user in the places that are open to all."""
    for place in _OPEN_PLACES:
        with contextlib.suppress(OSError):
            for entry in list(os.scandir(place)):
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == uid:
                        yield Path(entry.path)


def remove_all(paths: Iterable[Path]) -> None:
    """Remove files and folders, however deep, following no link; what is gone is fine."""
    found = [str(path) for path in paths]
    if not found:
        return
    if not _quietly("rm", "-rf", "--", *found):
        # Folders that their owner may not enter, where this process is that owner.
        _quietly("chmod", "-R", "u+rwX", "--", *found)
        _quietly("rm", "-rf", "--", *found)


def _quietly(*command: str) -> bool:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def remove_ipc(uid: int) -> None:
    """Remove the System V shared memory, semaphores and message queues that a user has left."""
    libc = ctypes.CDLL(None)
    calls: dict[str, Callable[[int], int]] = {
        "shm": lambda number: int(libc.shmctl(number, _REMOVE, None)),
        "sem": lambda number: int(libc.semctl(number, 0, _REMOVE)),
        "msg": lambda number: int(libc.msgctl(number, _REMOVE, None)),
    }
    for kind, remove in calls.items():
        with contextlib.suppress(OSError, ValueError):
            header, *rows = Path(f"/proc/sysvipc/{kind}").read_text(encoding="ascii").splitlines()
            owner = header.split().index("uid")
            for fields in map(str.split, rows):
                if int(fields[owner]) == uid:
                    remove(int(fields[1]))


def require(*programs: str) -> dict[str, str]:
    """Return where some programs are.

    Raises:
        SandboxError: one is missing.
    """
    found = {program: shutil.which(program, path=PATH) for program in programs}
    missing = [program for program, path in found.items() if path is None]
    if missing:
        raise SandboxError(f"this machine has no {', '.join(missing)} in {PATH}: install bash and coreutils")
    return {program: str(path) for program, path in found.items()}
