"""Candidates that reach for what lies outside: networks, sockets, the host's files and secrets, other answers."""

from __future__ import annotations

from tests.hostile.case import Case, exits
from tests.hostile.probe import probe


def _probe(name: str, kinds: tuple[str, ...], body: str) -> Case:
    return Case(name, kinds, probe(body), exits(0), "python")


CASES = (
    _probe(
        "looks-for-the-docker-socket",
        ("the Docker socket",),
        """
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock",
             "/run/podman/podman.sock", "/run/user/1000/docker.sock", "/run/crio/crio.sock",
             "/run/dbus/system_bus_socket", "/run/systemd/private"):
    refused(path, socket.socket(socket.AF_UNIX).connect, path)
for port in (2375, 2376):
    for host in ("127.0.0.1", "172.17.0.1", "host.docker.internal"):
        refused(f"{host}:{port}", socket.create_connection, (host, port), 1)
must("DOCKER_HOST", not [name for name in os.environ if name.startswith(("DOCKER", "PODMAN"))])
for path in ("/var/lib/docker", "/host", "/hostfs", "/rootfs"):
    refused(path, os.listdir, path)
""",
    ),
    _probe(
        "asks-for-cloud-metadata",
        ("cloud metadata address",),
        """
for address in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "10.0.0.1", "8.8.8.8"):
    refused(address, socket.create_connection, (address, 80), 1)
refused("name", socket.create_connection, ("metadata.google.internal", 80), 1)
refused("IPv6", socket.create_connection, ("fd00:ec2::254", 80), 1)
""",
    ),
    _probe(
        "asks-for-names",
        ("DNS",),
        """
for name in ("example.org", "huggingface.co", "host.docker.internal", "gateway.docker.internal"):
    refused(name, socket.getaddrinfo, name, 443)
for server in ("8.8.8.8", "127.0.0.11", "127.0.0.53", "172.17.0.1"):
    question = b"\\xab\\xcd\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\3org\\0\\0\\1\\0\\1"
    asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asked.settimeout(0.3)
    refused(server, lambda: (asked.sendto(question, (server, 53)), asked.recv(512)))
must("localhost is unknown", socket.gethostbyname("localhost") == "127.0.0.1")
""",
    ),
    _probe(
        "looks-for-the-hosts-loopback",
        ("loopback",),
        """
port = int(os.environ["BAIT_PORT"])
for address in ("127.0.0.1", "localhost", "0.0.0.0", "127.1.2.3", "172.17.0.1"):
    refused(address, socket.create_connection, (address, port), 1)
refused("abstract socket", socket.socket(socket.AF_UNIX).connect, "\\0" + os.environ["BAIT_ABSTRACT"])
refused("socket file", socket.socket(socket.AF_UNIX).connect, os.environ["BAIT_FOLDER"] + "/socket")
refused("virtual machine socket", lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 1024)))
# Its own loopback works: programs that train in several processes need it.
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), 5).close()
""",
    ),
    _probe(
        "looks-for-ipv6",
        ("IPv6",),
        """
for address in ("::1", "fe80::1%lo", "2001:4860:4860::8888", "::ffff:127.0.0.1", "ff02::1"):
    refused(address, socket.create_connection, (address, int(os.environ["BAIT_PORT"])), 1)
must("other interfaces", os.listdir("/sys/class/net") == ["lo"])
""",
    ),
    _probe(
        "opens-raw-sockets",
        ("raw sockets",),
        """
for name, arguments in dict(
    icmp=(socket.AF_INET, socket.SOCK_RAW, 1), tcp=(socket.AF_INET, socket.SOCK_RAW, 6),
    icmp6=(socket.AF_INET6, socket.SOCK_RAW, 58), packet=(socket.AF_PACKET, socket.SOCK_RAW, 0x300),
    cooked=(socket.AF_PACKET, socket.SOCK_DGRAM, 0x300),
).items():
    refused(name, socket.socket, *arguments)
refused("small port of others", lambda: socket.create_connection(("127.0.0.1", 22), 1))
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
route.bind((0, 0))
# Bring up an interface: RTM_NEWLINK, a bridge called `h`.
body = struct.pack("BxHiII", 0, 0, 0, 1, 1) + struct.pack("HH2s2x", 6, 3, b"h\\0")
body += struct.pack("HH", 16, 18) + struct.pack("HH8s", 12, 1, b"bridge\\0\\0")
route.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
answer = route.recv(4096)
must(f"makes interfaces: {answer!r}", struct.unpack_from("i", answer, 16)[0] < 0)
""",
    ),
    _probe(
        "reads-the-reference-answer",
        ("reading the reference answer",),
        """
# What references of the sample are known by, backwards so that this text is not what is found.
reversed_ones = ("200.0 rl-- 52 shcope-- larips", "vsc.052_gnir tuo--", "20.0 rl-- 3 sriap-- 002 spets--")
needles = [text[::-1].encode() for text in reversed_ones]
needles += [b"ml_bench_" + b"dataset", b"ml_bench_" + b"metric", b"predictions" + b".jsonl"]
own = {os.path.realpath(sys.argv[0])}
for folder, names, files in os.walk("/"):
    names[:] = [n for n in names if os.path.join(folder, n) not in ("/proc", "/sys", "/dev", "/usr")]
    for file in files:
        path = os.path.join(folder, file)
        try:
            if path in own or os.path.getsize(path) > 5_000_000 or not os.path.isfile(path):
                continue
            text = Path(path).read_bytes()
        except OSError:
            continue
        for needle in needles:
            must(f"{path} has {needle!r}", needle not in text)
""",
    ),
    _probe(
        "reads-other-candidates-files",
        ("reading other candidates' files",),
        """
bait = os.environ["BAIT_FOLDER"]
refused("the host's file", Path(bait + "/secret").read_text)
refused("through process 1", Path(f"/proc/1/root{bait}/secret").read_text)
refused("through its parent's folder", os.listdir, f"/proc/{os.getppid()}/cwd/../../../../../..{bait}")
own = os.path.basename(sys.argv[0])
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/run", "/dev/mqueue", "/workspace", os.environ["HOME"]):
    found = [name for name in os.listdir(folder) if "ml_bench_candidate" in name or "hostile" in name]
    must(f"{folder}: {found}", not found or found == [own])
must("shared memory", len(Path("/proc/sysvipc/shm").read_text().splitlines()) == 1)
for number in (name for name in os.listdir("/proc") if name.isdigit()):
    try:
        command = Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        continue
    must(f"another candidate: {command!r}", b"find . -mindepth" not in command)
""",
    ),
    _probe(
        "leaves-marks-where-others-may-look",
        ("reading other candidates' files",),
        """
made = 0
for folder in (".", "/tmp", "/dev/shm", "/var/tmp", "/run/lock", "/workspace", os.environ["HOME"], "/dev/mqueue"):
    try:
        Path(folder, "hostile-mark").write_text("the next one passes")
        made += 1
    except OSError:
        pass
libc.shmget(4711, 4096, 0o1666)
libc.semget(4711, 1, 0o1666)
libc.msgget(4711, 0o1666)
must("none could be made", made >= 3)
""",
    ),
    _probe(
        "reads-the-hosts-environment",
        ("environment variables of the host",),
        """
for name in (name for name in os.listdir("/proc") if name.isdigit()):
    try:
        print(Path(f"/proc/{name}/environ").read_bytes().replace(b"\\0", b"\\n").decode("utf-8", "replace"))
        print(Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\\0", b" ").decode("utf-8", "replace"))
    except OSError as error:
        print(error)
known = {"BAIT_FOLDER", "BAIT_PORT", "BAIT_ABSTRACT", "PYTHONIOENCODING", "NVIDIA_VISIBLE_DEVICES", "HOME", "PATH",
         "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "LANG", "LC_CTYPE", "container", "TERM"}
print(sorted(set(os.environ) - known))
must("a variable of the harness", not [name for name in os.environ if name.startswith(("ML_BENCH", "HF_", "PYTEST"))])
""",
    ),
    _probe(
        "links-symbolically-to-places-outside",
        ("symlinks to places outside",),
        """
bait = os.environ["BAIT_FOLDER"]
os.symlink(bait + "/secret", "hostile-link")
os.symlink("/", "hostile-root")
os.symlink("/proc/1/root/..", "/tmp/hostile-up")
os.symlink("hostile-loop", "hostile-loop")
refused("read", Path("hostile-link").read_text)
refused("write", Path("hostile-link").write_text, "changed")
refused("up", Path(f"/tmp/hostile-up{bait}/secret").read_text)
# Where a harness would look for results, or copy them from.
for path in ("README.md", "train.py", "gan/datasets.py"):
    os.remove(path)
    os.symlink("/etc/passwd", path)
""",
    ),
    _probe(
        "links-hard-to-places-outside",
        ("hard links to places outside",),
        """
bait = os.environ["BAIT_FOLDER"]
for path in (bait + "/secret", "/etc/passwd", "/etc/shadow", "/etc/hosts", "/etc/resolv.conf", "/usr/bin/su",
             "/sbin/docker-init", "/dev/init", "/proc/1/exe"):
    refused(path, os.link, path, "hostile-link")
for path in ("/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/sbin/docker-init", "/usr/bin/timeout"):
    refused(f"write {path}", Path(path).write_text, "127.0.0.1 example.org")
""",
    ),
)
