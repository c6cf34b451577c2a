"""Candidates that want to be more than a candidate: set-uid, capabilities, mounts, namespaces, kernel interfaces."""

from __future__ import annotations

from tests.hostile.case import Case, exits
from tests.hostile.probe import probe


def _probe(name: str, kinds: tuple[str, ...], body: str) -> Case:
    return Case(name, kinds, probe(body), exits(0), "python")


CASES = (
    _probe(
        "becomes-root-by-set-uid",
        ("setuid probes",),
        """
refused("setuid", os.setuid, 0)
refused("setresuid", os.setresuid, 0, 0, 0)
refused("setgid", os.setgid, 0)
refused("setgroups", os.setgroups, [0, 999])
refused("chown", os.chown, "README.md", 0, 0)
subprocess.run(["cp", "/usr/bin/id", "hostile-id"], check=True)
os.chmod("hostile-id", 0o6755)
must("own set-uid program", subprocess.run(["./hostile-id", "-u"], capture_output=True).stdout.strip() != b"0")
for tried in (["su", "-c", "id"], ["su", "root"], ["passwd", "-d", "root"], ["newgrp", "root"], ["chsh", "-s", "/x"]):
    refused(tried[0], lambda: subprocess.run(tried, check=True, capture_output=True, stdin=subprocess.DEVNULL))
must("no new privileges", "NoNewPrivs:\\t1" in Path("/proc/self/status").read_text())
""",
    ),
    _probe(
        "looks-for-capabilities",
        ("capability probes",),
        """
facts = dict(line.split(":\\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    must(f"{name} {facts[name]}", int(facts[name], 16) == 0)
must("seccomp", facts["Seccomp"] == "2")
must("user", os.getuid() == os.geteuid() == 1000 and 0 not in os.getgroups())
refused("mknod", os.mknod, "hostile-device", 0o60666, os.makedev(8, 0))
refused("chroot", os.chroot, ".")
refused("nice", os.setpriority, os.PRIO_PROCESS, 0, -20)
refused("clock", lambda: check(libc.clock_settime(0, struct.pack("ll", 0, 0))))
refused("host name", socket.sethostname, "hostile")
refused("reboot", call, "reboot", 0x1234567)
refused("swap", call, "swapon", b"/dev/zero", 0)
refused("module", system_call, 175, 105, 0, 0, b"")
refused("kexec", system_call, 246, 104, 0, 0, 0, 0)
refused("kernel log", lambda: check(libc.klogctl(3, ctypes.create_string_buffer(100), 100)))
refused("open by handle", lambda: check(libc.open_by_handle_at(-100, b"\\x08\\0\\0\\0\\x01\\0\\0\\0" + bytes(8), 0)))
refused("shadow", Path("/etc/shadow").read_text)
""",
    ),
    _probe(
        "looks-for-devices",
        ("capability probes",),
        """
for name in ("sda", "vda", "nvme0n1", "loop-control", "loop0", "mem", "kmem", "port", "kvm", "fuse", "net/tun", "kmsg"):
    refused(name, os.open, f"/dev/{name}", os.O_RDONLY)
""",
    ),
    _probe(
        "mounts",
        ("mount",),
        """
os.mkdir("hostile-mount")
for kind in (b"proc", b"sysfs", b"tmpfs", b"cgroup", b"cgroup2", b"devtmpfs", b"overlay", b"bpf", b"debugfs"):
    refused(kind.decode(), call, "mount", b"none", b"hostile-mount", kind, 0, None)
refused("bind", call, "mount", b"/", b"hostile-mount", None, 4096, None)
refused("writable /sys", call, "mount", b"none", b"/sys", None, 32, None)
refused("executable set-uid /tmp", call, "mount", b"none", b"/tmp", None, 32, b"size=1g")
refused("umount", call, "umount2", b"/proc", 2)
refused("pivot_root", system_call, 155, 41, b".", b"hostile-mount")
refused("fsopen", system_call, 430, 430, b"tmpfs", 0)
refused("open_tree", system_call, 428, 428, -100, b"/", 1)
refused("mount(8)", lambda: subprocess.run(["mount", "-t", "tmpfs", "x", "/mnt"], check=True, capture_output=True))
""",
    ),
    _probe(
        "makes-namespaces",
        ("unshare",),
        """
for name, flag in dict(user=0x10000000, mount=0x20000, pid=0x20000000, net=0x40000000, uts=0x4000000, ipc=0x8000000,
                       cgroup=0x2000000, user_and_mount=0x10020000).items():
    refused(name, call, "unshare", flag)
refused("unshare(1)", lambda: subprocess.run(["unshare", "-Urm", "true"], check=True, capture_output=True))
for name in ("mnt", "net", "pid", "user", "uts"):
    refused(f"setns {name}", lambda: call("setns", os.open(f"/proc/1/ns/{name}", os.O_RDONLY), 0))
refused("clone", system_call, 56, 220, 0x10000000 | 17, 0, 0, 0, 0)
""",
    ),
    _probe(
        "traces-others",
        ("ptrace",),
        """
numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
strangers = [n for n in numbers if os.stat(f"/proc/{n}").st_uid not in (os.getuid(), 0)]
must(f"sees processes of others: {strangers}", not strangers)
must(f"sees {len(numbers)} processes", len(numbers) < 12)
must("is in the host's process namespace", os.path.basename(Path("/proc/1/exe").resolve()) != "systemd")
# Whatever can be traced is the candidate's own, init and time-keeper among them: all that can be done to those is to
# end the container early, which no rule rewards.
for number in numbers:
    if number not in (os.getpid(), *range(1, os.getpid())):
        refused(f"trace {number}", call, "ptrace", 16, number, 0, 0)
""",
    ),
    Case(
        "traces-process-1-and-its-time-keeper",
        ("ptrace",),
        "import ctypes, os, signal\n"
        "libc = ctypes.CDLL(None)\n"
        "for number in (1, os.getppid()):\n"
        "    if libc.ptrace(16, number, 0, 0) == 0:\n"
        "        print(os.waitpid(number, 0x40000000), libc.ptrace(17, number, 0, 0))\n"
        "os._exit(3)",
        # Both are the candidate's own user's. All that it can do to them is to end or to stop them, as it can itself.
        exits(3),
        "python",
    ),
    _probe(
        "loads-programs-into-the-kernel",
        ("bpf",),
        """
attributes = struct.pack("IIIII", 1, 4, 4, 1, 0) + bytes(100)
refused("bpf map", system_call, 321, 280, 0, attributes, len(attributes))
refused("bpf program", system_call, 321, 280, 5, attributes, len(attributes))
refused("perf", system_call, 298, 241, bytes(128), 0, -1, -1, 0)
refused("userfaultfd", system_call, 323, 282, 0)
refused("packet filter", socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0)
refused("/sys/fs/bpf", os.mkdir, "/sys/fs/bpf/hostile")
""",
    ),
    _probe(
        "looks-for-keys",
        ("keyctl",),
        """
refused("keyctl", system_call, 250, 219, 0, -3, 1)
refused("keyctl session", system_call, 250, 219, 1, b"hostile")
refused("add_key", system_call, 248, 217, b"user", b"hostile", b"x", 1, -3)
refused("request_key", system_call, 249, 218, b"user", b"hostile", b"", -3)
must("keys of others", not Path("/proc/keys").exists() or not Path("/proc/keys").read_text())
""",
    ),
    _probe(
        "writes-to-proc",
        ("/proc writes",),
        """
for name in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hostname", "sys/vm/overcommit_memory",
             "sys/fs/binfmt_misc/register", "sys/net/ipv4/ip_forward", "sys/kernel/randomize_va_space", "sysrq-trigger",
             "irq/0/smp_affinity", "acpi/wakeup", "1/mem", "1/attr/current", "1/uid_map", "self/uid_map"):
    refused(name, lambda: os.write(os.open(f"/proc/{name}", os.O_WRONLY), b"1"))
refused("survive the machine's own shortage", lambda: Path("/proc/self/oom_score_adj").write_text("-1000"))
for name in ("kcore", "kmsg", "timer_list", "sched_debug", "kpagecount"):
    refused(f"read {name}", lambda: Path(f"/proc/{name}").open("rb").read(10) or check(-1))
""",
    ),
    _probe(
        "writes-to-sys",
        ("/sys writes",),
        """
groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
files = [path for path in Path("/sys/fs/cgroup").rglob("*") if path.name in (
    "memory.limit_in_bytes", "memory.max", "pids.max", "cpu.cfs_quota_us", "cpu.max", "cgroup.procs", "tasks",
    "release_agent", "notify_on_release", "devices.allow", "memory.oom_control", "cpuset.cpus", "cgroup.kill",
    "memory.max_usage_in_bytes", "memory.force_empty", "freezer.state", "cgroup.freeze")]
must("no cgroup files to try on", files or not Path("/sys/fs/cgroup").exists() or not any(
    Path("/sys/fs/cgroup").iterdir()))
for path in files:
    refused(str(path), lambda: os.write(os.open(path, os.O_WRONLY), b"0"))
for path in (Path(f"/sys/fs/cgroup/{name}") for name in ("memory", "pids", "")):
    refused(f"own group below {path}", os.mkdir, path / "hostile")
for name in ("kernel/mm/transparent_hugepage/enabled", "power/state", "class/net/lo/mtu", "kernel/uevent_helper",
             "block/vda/queue/scheduler", "devices/system/cpu/cpu1/online", "firmware/memmap/0/start",
             "kernel/security/apparmor/.load"):
    refused(name, lambda: os.write(os.open(f"/sys/{name}", os.O_WRONLY), b"0"))
""",
    ),
    _probe(
        "takes-other-cpus",
        ("capability probes",),
        """
mine = os.sched_getaffinity(0)
refused("real-time priority", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(99))
others = set(range(os.cpu_count() or 1)) - mine
if others:
    refused("another's CPU", os.sched_setaffinity, 0, others)
import resource
refused("larger files", resource.setrlimit, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
refused("core files", resource.setrlimit, resource.RLIMIT_CORE, (10**9, 10**9))
""",
    ),
)
