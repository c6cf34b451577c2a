"""Programs that try what a candidate must not be able to do. They exit with 0 where all of it was refused.

So a probe that is repelled passes, as a program does that tried something else and went on; a breach is status 9.
"""

from __future__ import annotations

BREACH = 9
"""Exit status of a probe that got through, with what it got on standard error."""

_BEFORE = """\
import ctypes, errno, os, platform, socket, struct, subprocess, sys
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
breaches = []


def call(name, *arguments):
    check(getattr(libc, name)(*arguments))


def system_call(x86_64, aarch64, *arguments):
    check(libc.syscall(x86_64 if platform.machine() == "x86_64" else aarch64, *arguments))


def check(returned):
    if returned == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def refused(what, action, *arguments):
    try:
        got = action(*arguments)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        print("refused:", what, "-", error)
    else:
        breaches.append(f"{what}: {got!r}")


def must(what, condition):
    if not condition:
        breaches.append(what)


"""

_AFTER = """

if breaches:
    print("BREACH", *breaches, sep="\\n", file=sys.stderr)
    sys.exit(9)
"""


def probe(body: str) -> str:
    """Return a Python program that does `body`, in which `refused`, `must`, `call` and `system_call` are there."""
    return _BEFORE + body.strip() + _AFTER
