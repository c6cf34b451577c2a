"""A full disk of the engine is noticed and remembered, and a disk that cannot be looked at is none."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ml_bench_metric.sandbox.engine_disk import EngineDisk

ROOMY = {"f_frsize": 4096, "f_bavail": 10**6, "f_files": 10**6, "f_favail": 10**5}


@pytest.mark.parametrize(
    ("found", "full"),
    [
        ({}, False),
        ({"f_bavail": 4095}, True),
        ({"f_bavail": 4097}, False),
        ({"f_favail": 3}, True),
        # btrfs counts no files.
        ({"f_files": 0, "f_favail": 0}, False),
    ],
)
def test_a_disk_is_full_without_bytes_or_without_files(
    found: dict[str, int], full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = EngineDisk(str(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda folder: SimpleNamespace(**{**ROOMY, **found}))
    disk.look()
    assert disk.was_full is full


def test_a_disk_that_was_full_once_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = EngineDisk(str(tmp_path))
    for room in (0, 10**6):
        monkeypatch.setattr(os, "statvfs", lambda folder, r=room: SimpleNamespace(**{**ROOMY, "f_bavail": r}))
        disk.look()
    assert disk.was_full


@pytest.mark.parametrize("folder", ["", "/no/such/folder"])
def test_a_disk_elsewhere_is_not_judged(folder: str) -> None:
    disk = EngineDisk(folder)
    disk.look()
    assert not disk.was_full
