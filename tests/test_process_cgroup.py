"""The cgroup of a candidate gets its limits under v1 and v2, and nothing depends on there being one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ml_bench_metric.sandbox.limits import MIB, Limits
from ml_bench_metric.sandbox.process_cgroup import Cgroup, make_cgroup
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Slot

LIMITS = Limits(memory_bytes=256 * MIB, processes=32, cpus=2)

Kernel = Callable[[Path, str], None]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Files that a new folder below another has, as the kernel makes them."""
    real, known = Path.mkdir, dict[Path, str]()

    def mkdir(self: Path) -> None:
        real(self)
        for name in known.get(self.parent, "").split():
            (self / name).write_text("", encoding="ascii")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    return known.__setitem__


def _values(folder: Path) -> dict[str, str]:
    found = {path.name: path.read_text(encoding="ascii") for path in folder.iterdir()}
    return {name: value for name, value in found.items() if value}


def test_v2_has_all_limits_in_one_folder(tmp_path: Path, kernel: Kernel) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory", encoding="ascii")
    (tmp_path / "cgroup.subtree_control").write_text("", encoding="ascii")
    kernel(tmp_path, "cgroup.procs memory.max memory.swap.max pids.max cpuset.cpus cpuset.mems cpu.max")
    made = make_cgroup("one", LIMITS, Slot((1, 3)), tmp_path)
    assert made == Cgroup((tmp_path / "one",), limits_memory=True)
    assert made.entrances == [str(tmp_path / "one" / "cgroup.procs")]
    assert _values(tmp_path / "one") == {
        "memory.max": str(256 * MIB),
        "memory.swap.max": "0",
        # One more: `timeout` is in it.
        "pids.max": "33",
        "cpuset.cpus": "1,3",
    }


def test_v2_without_cpus_of_its_own_has_the_time_of_some(tmp_path: Path, kernel: Kernel) -> None:
    (tmp_path / "cgroup.controllers").write_text("", encoding="ascii")
    kernel(tmp_path, "cgroup.procs cpu.max")
    made = make_cgroup("one", LIMITS, ANY_SLOT, tmp_path)
    assert _values(tmp_path / "one") == {"cpu.max": "200000 100000"}
    assert not made.limits_memory


def test_v1_has_a_folder_for_each_controller_that_there_is(tmp_path: Path, kernel: Kernel) -> None:
    for name in ("memory", "cpuset", "cpu"):
        (tmp_path / name).mkdir()
    for name, files in {
        "memory": "cgroup.procs memory.limit_in_bytes memory.memsw.limit_in_bytes",
        "cpuset": "cgroup.procs cpuset.cpus cpuset.mems",
        "cpu": "cgroup.procs cpu.cfs_quota_us",
    }.items():
        kernel(tmp_path / name, files)
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0-1\n", encoding="ascii")
    made = make_cgroup("one", LIMITS, Slot((1,)), tmp_path)
    assert [folder.parent.name for folder in made.folders] == ["memory", "cpuset", "cpu"]
    assert made.limits_memory
    assert _values(tmp_path / "memory" / "one") == {
        "memory.limit_in_bytes": str(256 * MIB),
        "memory.memsw.limit_in_bytes": str(256 * MIB),
    }
    assert _values(tmp_path / "cpuset" / "one") == {"cpuset.cpus": "1", "cpuset.mems": "0-1"}
    assert _values(tmp_path / "cpu" / "one") == {}


def test_where_none_may_be_made_there_is_none_and_that_is_no_error(tmp_path: Path) -> None:
    for mount in (tmp_path, tmp_path / "nowhere", Path("/proc/self")):
        made = make_cgroup("one", LIMITS, ANY_SLOT, mount)
        assert made == Cgroup((), limits_memory=False)
        assert made.entrances == []
        made.remove()


def test_one_that_is_gone_already_is_removed_without_a_word(tmp_path: Path) -> None:
    Cgroup((tmp_path / "gone",), limits_memory=False).remove()
