"""Empty caches of `datasets` and `evaluate` for a test, in this process and in others, and rows to fill them with."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import datasets
import evaluate.config
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent

Answer = TypeVar("Answer")


@contextmanager
def empty_caches(home: Path) -> Iterator[Path]:
    """Let `datasets` and `evaluate` of this process use empty caches below `home`, in the folder `home/work`."""
    work = home / "work"
    work.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ML_BENCH_SOURCE", raising=False)
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", home / "datasets")
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", home / "modules")
        patch.setattr(evaluate.config, "HF_METRICS_CACHE", home / "metrics")
        patch.setattr(evaluate.config, "HF_EVALUATE_OFFLINE", True)
        patch.setattr(sys, "path", list(sys.path))
        patch.chdir(work)
        _forget_modules()
        yield home
        _forget_modules()


def _forget_modules() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "evaluate_modules"]:
        del sys.modules[name]


class Process:
    """A process of its own, with caches of its own: the clients read their settings once, when they are imported."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        with pytest.MonkeyPatch.context() as patch:
            for name in ("HF_TOKEN", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "ML_BENCH_SOURCE"):
                patch.delenv(name, raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            self._pool.submit(os.getpid).result(timeout=120)  # it starts now, with this environment

    def start(self, function: Callable[..., Answer], *arguments: Any, **options: Any) -> Future[Answer]:
        """Call a function of a test module there; what it returns or raises comes back."""
        return self._pool.submit(function, *arguments, **options)

    def run(self, function: Callable[..., Answer], *arguments: Any, **options: Any) -> Answer:
        """Call a function of a test module there, and wait for it."""
        return self.start(function, *arguments, **options).result(timeout=120)

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()


def at_the_same_time(home: Path, function: Callable[[Any], Answer], arguments: Iterable[Any]) -> list[Answer]:
    """Call a function of a test module for each argument, each in a process of its own with caches below `home`."""
    with ExitStack() as stack:
        processes = [(stack.enter_context(Process({"HF_HOME": str(home)})), argument) for argument in arguments]
        calls = [process.start(function, argument) for process, argument in processes]
        return [call.result(timeout=120) for call in calls]


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return path -> content of everything below a folder, None for a folder; without locks, which stay behind."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.suffix != ".lock" and "__pycache__" not in path.parts
    }


def task_rows(count: int, word: str = "karate") -> list[dict[str, Any]]:
    """Return rows of somebody's own benchmark, with the published columns."""
    return [
        {
            "github_id": 901,
            "github": "https://example.org/lab/toy-repo",
            "repo_id": number,
            "path": "./",
            "arguments": f"{{'epochs': {number}, 'data': '{word}'}}",
            "instruction": f"Train on {word} for {number} epochs.\nThen “stop” 🛑.",
            "oracle": "train.py takes --epochs and --data",
            "type": "Bash Script",
            "id": number,
            "prefix_code": "",
            "output": f"python train.py --epochs {number} --data {word}",
        }
        for number in range(1, count + 1)
    ]


def parquet(rows: list[dict[str, Any]]) -> bytes:
    """Return the parquet file of some rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def write_source(folder: Path, full: list[dict[str, Any]] | None, quarter: list[dict[str, Any]] | None) -> Path:
    """Write a folder that looks like upstream's repository, and return it."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for split, rows in (("full", full), ("quarter", quarter)):
        if rows is not None:
            (folder / "data" / f"{split}-00000-of-00001.parquet").write_bytes(parquet(rows))
    return folder


def jsonl(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
