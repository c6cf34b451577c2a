"""A Python with NumPy that every user of the machine can execute, for candidates that are users of their own."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SYSTEM = "/usr/bin/python3"
_ORDINARY = 64_999
"""A user who is nobody here."""


@contextlib.contextmanager
def public_python() -> Iterator[str]:
    """Give the path of one: this Python itself where others can reach it, else a copy that is gone afterwards.

    Raises:
        RuntimeError: there is none; the message says why.
    """
    if os.geteuid() != 0 or _runs_for_others(sys.executable):
        yield sys.executable
        return
    if not Path(_SYSTEM).exists() or _version(_SYSTEM) != list(sys.version_info[:2]):
        raise RuntimeError(
            f"no other user can execute {sys.executable}, and {_SYSTEM} is of another version than its packages: "
            "make the virtual environment with a Python outside of root's own folder"
        )
    folder = Path(tempfile.mkdtemp(prefix="ml-bench-public-python-"))
    try:
        subprocess.run([_SYSTEM, "-m", "venv", "--without-pip", str(folder)], check=True)
        folder.chmod(0o755)
        packages = next(folder.glob("lib/python3*/site-packages"))
        found = importlib.util.find_spec("numpy")
        assert found is not None and found.origin is not None
        for one in Path(found.origin).parents[1].glob("numpy*"):
            shutil.copytree(one, packages / one.name)
        yield str(folder / "bin" / "python")
    finally:
        shutil.rmtree(folder)


def as_another(python: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that uses this project as an ordinary user; as this one, where that is not root.

    Args:
        python: from `public_python`.
        program: its text.
        arguments: for it.
    """
    user = _ORDINARY if os.geteuid() == 0 else None
    places = [str(Path(__file__).parents[1]), *(place for place in sys.path if place.endswith("site-packages"))]
    return subprocess.run(
        [python, "-c", program, *arguments],
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        cwd="/",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "HOME": "/nonexistent", "TMPDIR": "/tmp"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def _runs_for_others(python: str) -> bool:
    with contextlib.suppress(OSError):
        command = [python, "-c", "import numpy"]
        done = subprocess.run(
            command, user=_ORDINARY, group=_ORDINARY, extra_groups=[], cwd="/", capture_output=True, check=False
        )
        return done.returncode == 0
    return False


def _version(python: str) -> object:
    program = "import json, sys; print(json.dumps(sys.version_info[:2]))"
    return json.loads(subprocess.run([python, "-c", program], check=True, capture_output=True).stdout)
