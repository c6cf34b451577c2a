"""A process whose Hugging Face clients talk to a FakeHub: they read their settings once, when they are imported.

Importing them takes seconds, so all tests share one such process and one Hub, which each test gets empty.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.fakehub import FakeHub

Answer = TypeVar("Answer")


class ClientProcess:
    """Runs functions of test modules in that process; what they return or raise comes back."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def run(self, function: Callable[..., Answer], *arguments: Any, **options: Any) -> Answer:
        return self._pool.submit(function, *arguments, **options).result(timeout=120)


def empty_hub() -> FakeHub:
    """Return the Hub, with nothing on it."""
    hub = _shared()[0]
    hub.clear()
    return hub


def client_process() -> ClientProcess:
    """Return the process. It has no token, so that tests give theirs."""
    return _shared()[1]


@cache
def _shared() -> tuple[FakeHub, ClientProcess]:
    home = Path(tempfile.mkdtemp(prefix="ml-bench-test-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    hub = FakeHub()
    hub.__enter__()
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "ML_BENCH_SOURCE"):
            patch.delenv(name, raising=False)
        for name, value in hub.environment(home, token=None).items():
            patch.setenv(name, value)
        pool.submit(os.getpid).result(timeout=120)  # it starts now, with this environment
    return hub, ClientProcess(pool)
