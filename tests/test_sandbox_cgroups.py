"""Facts of the kernel are read right from recorded files of both cgroup versions, and never from a stranger's."""

from __future__ import annotations

from pathlib import Path

from ml_bench_metric.sandbox.cgroups import CgroupReader, Usage

ID = "4f" * 32


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")


def _reader(tmp_path: Path, memberships: str, container: str = ID) -> CgroupReader:
    _write(tmp_path / "proc" / "77" / "cgroup", memberships)
    return CgroupReader(77, container, proc=tmp_path / "proc", mount=tmp_path / "cgroup")


V1 = f"11:memory:/docker/{ID}\n5:cpu,cpuacct:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/docker/{ID}\n"
V2 = f"0::/system.slice/docker-{ID}.scope\n"


def _v1_files(tmp_path: Path) -> Path:
    root = tmp_path / "cgroup"
    _write(root / "memory" / "docker" / ID / "memory.max_usage_in_bytes", "268435456\n")
    _write(root / "memory" / "docker" / ID / "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    _write(root / "cpuacct" / "docker" / ID / "cpuacct.usage", "1500000000\n")
    return root


def test_version_1_is_read(tmp_path: Path) -> None:
    _v1_files(tmp_path)
    assert _reader(tmp_path, V1).read() == Usage(cpu_seconds=1.5, peak_memory_bytes=268435456, oom_kills=2)


def test_version_2_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "cgroup" / "system.slice" / f"docker-{ID}.scope"
    _write(folder / "memory.peak", "1048576\n")
    _write(folder / "memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 1\noom_group_kill 0\n")
    _write(folder / "cpu.stat", "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
    assert _reader(tmp_path, V2).read() == Usage(cpu_seconds=2.5, peak_memory_bytes=1048576, oom_kills=1)


def test_version_2_under_a_plain_cgroup_driver_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "cgroup" / "docker" / ID
    _write(folder / "memory.peak", "4096\n")
    _write(folder / "memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n")
    _write(folder / "cpu.stat", "usage_usec 250000\nuser_usec 5\nsystem_usec 5\nnr_periods 0\nnr_throttled 0\n")
    found = _reader(tmp_path, f"0::/docker/{ID}\n").read()
    assert found == Usage(cpu_seconds=0.25, peak_memory_bytes=4096, oom_kills=0)


def test_on_a_hybrid_machine_the_files_of_version_1_count(tmp_path: Path) -> None:
    _v1_files(tmp_path)
    # The unified hierarchy stands beside the others there, without controllers.
    _write(tmp_path / "cgroup" / "unified" / "docker" / ID / "cgroup.procs", "77\n")
    assert _reader(tmp_path, V1).read() == Usage(cpu_seconds=1.5, peak_memory_bytes=268435456, oom_kills=2)


def test_a_process_in_a_group_of_its_own_below_the_containers_is_found_under_version_2(tmp_path: Path) -> None:
    folder = tmp_path / "cgroup" / "machine.slice" / f"libpod-{ID}.scope" / "container"
    _write(folder / "memory.peak", "8192\n")
    _write(folder / "memory.events", "oom_kill 4\n")
    _write(folder / "cpu.stat", "usage_usec 3000000\n")
    _write(folder / "cgroup.procs", "77\n90\n")
    reader = _reader(tmp_path, f"0::/machine.slice/libpod-{ID}.scope/container\n")
    assert reader.read() == Usage(cpu_seconds=3.0, peak_memory_bytes=8192, oom_kills=4)
    assert reader.pids() == (77, 90)


def test_processes_and_their_readiness_are_read_under_version_2(tmp_path: Path) -> None:
    folder = tmp_path / "cgroup" / "system.slice" / f"docker-{ID}.scope"
    _write(folder / "cgroup.procs", "77\n78\n")
    _write(tmp_path / "proc" / "78" / "task" / "78" / "schedstat", "250000000 1000000000 9\n")
    reader = _reader(tmp_path, V2)
    assert reader.pids() == (77, 78)
    assert reader.ready_seconds() == 1.25


def test_a_kernel_without_a_peak_leaves_it_unknown(tmp_path: Path) -> None:
    _write(tmp_path / "cgroup" / "system.slice" / f"docker-{ID}.scope" / "cpu.stat", "usage_usec 1000000\n")
    assert _reader(tmp_path, V2).read() == Usage(cpu_seconds=1.0, peak_memory_bytes=None, oom_kills=0)


def test_the_last_values_stay_when_the_container_has_gone(tmp_path: Path) -> None:
    root = _v1_files(tmp_path)
    reader = _reader(tmp_path, V1)
    known = reader.read()
    (root / "cpuacct" / "docker" / ID / "cpuacct.usage").unlink()
    (root / "memory" / "docker" / ID / "memory.oom_control").write_text("")
    assert reader.read() == known


def test_a_process_of_the_same_number_on_this_machine_is_not_taken_for_one_on_the_engines(tmp_path: Path) -> None:
    _v1_files(tmp_path)
    reader = _reader(tmp_path, V1, container="ab" * 32)
    assert not reader.found
    assert reader.read() == Usage()


def test_no_process_means_nothing_known(tmp_path: Path) -> None:
    assert CgroupReader(1, ID, proc=tmp_path, mount=tmp_path).read() == Usage()


def test_the_longest_ready_thread_counts_and_threads_are_not_added_up(tmp_path: Path) -> None:
    root = _v1_files(tmp_path)
    _write(root / "memory" / "docker" / ID / "cgroup.procs", "77\n78\n79\n")
    for pid, thread, ran, waited in ((77, 77, 100, 1_400), (78, 78, 500, 1_250), (78, 80, 1_000, 500)):
        text = f"{ran * 1_000_000} {waited * 1_000_000} 9\n"
        _write(tmp_path / "proc" / str(pid) / "task" / str(thread) / "schedstat", text)
    assert _reader(tmp_path, V1).ready_seconds() == 1.75


def test_readiness_is_unknown_where_the_container_is_out_of_sight(tmp_path: Path) -> None:
    _v1_files(tmp_path)
    assert _reader(tmp_path, V1, container="ab" * 32).ready_seconds() is None
