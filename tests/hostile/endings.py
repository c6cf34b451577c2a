"""Candidates that do not end as they should: loops, daemons, signals, `exec`, and what they do to their channels."""

from __future__ import annotations

from tests.hostile.case import COMPUTES, FAILS, HANG_SECONDS, SLEEPS, Case, Ending, exits, killed

_HANGS = {"seconds": HANG_SECONDS}

_DAEMON = """
import os, sys, time

if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 1024)
    os.chdir("/")
    {life}
os.wait()
time.sleep(0.2)
sys.exit({status})
"""

_FORGED_FRAMES = r"""
import struct, sys

frame = lambda kind, text: struct.pack(">BxxxL", kind, len(text)) + text
said = (
    b"ready\n" + frame(0, b"") + frame(1, b"ready\n") + frame(2, b"fine") + frame(3, b"") + frame(7, b"?" * 9)
    + b'{"outcome": "exited", "status": 0, "cpu_seconds": 10.0, "oom_kills": 0}\n'
    + b'{"StatusCode":0,"Error":null}\n\x01\x00\x00\x00\xff\xff\xff\xff'
    + b"1 passed in 0.01s\n__ML_BENCH_EXIT__:0\nHTTP/1.1 200 OK\r\n\r\n"
)
for stream in (sys.stdout, sys.stderr):
    stream.buffer.write(said)
    stream.buffer.flush()
sys.exit(1)
"""

_OWN_CHANNELS = r"""
import os, sys

for path in (
    "/dev/stdin", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/1/fd/0", "/proc/1/fd/1", "/proc/1/fd/2",
    f"/proc/{os.getppid()}/fd/0", f"/proc/{os.getppid()}/fd/1", "/dev/console", "/dev/tty",
):
    try:
        channel = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(channel, b"\x01\x00\x00\x00\x00\x00\x00\x06ready\n" * 10)
    except OSError as error:
        print(path, error, file=sys.stderr)
sys.exit(5)
"""

CASES = (
    Case("infinite-loop-in-bash", ("infinite loop",), "while :; do :; done", COMPUTES, limits=_HANGS),
    Case("infinite-loop-in-python", ("infinite loop",), "while True: pass", COMPUTES, "python", _HANGS),
    Case(
        "ignores-sigterm",
        ("ignores SIGTERM",),
        "trap '' TERM INT HUP QUIT TSTP; while :; do sleep 0.2; done",
        SLEEPS,
        limits=_HANGS,
    ),
    Case(
        "ignores-every-signal-that-can-be",
        ("ignores SIGTERM",),
        "import signal, time\n"
        "for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "while True: pass\n",
        COMPUTES,
        "python",
        _HANGS,
    ),
    Case(
        "daemon-with-closed-descriptors-behind-a-failure",
        ("double-forked daemon with closed descriptors",),
        _DAEMON.format(life="while True: pass", status=3),
        exits(3),
        "python",
    ),
    Case(
        "daemon-with-closed-descriptors-behind-a-success",
        ("double-forked daemon with closed descriptors",),
        _DAEMON.format(life="time.sleep(3600)", status=0),
        exits(0),
        "python",
        also=lambda found: found.times.run < 15,
    ),
    Case(
        "hangs-with-closed-descriptors",
        ("double-forked daemon with closed descriptors",),
        "exec 0<&- 1>&- 2>&-; sleep 3600",
        SLEEPS,
        limits=_HANGS,
    ),
    Case(
        "child-writes-after-exit",
        ("output after exit by a child",),
        "(trap '' HUP TERM; while :; do echo late; echo late >&2; done) & disown; sleep 0.1; exit 6",
        exits(6),
        limits={"output_bytes": 64 * 1024 * 1024},
    ),
    Case(
        "child-holds-the-output-open",
        ("output after exit by a child",),
        "setsid bash -c 'sleep 3600' & setsid nohup sleep 3600 & disown -a; exit 0",
        exits(0),
        also=lambda found: found.times.run < 15,
    ),
    Case(
        "reads-stdin",
        ("reading stdin",),
        "import sys\ntext = sys.stdin.read()\nprint(repr(text))\nprint(input())",
        exits(1),
        "python",
        also=lambda found: found.stdout.head == "''\n" and "EOFError" in found.stderr.head,
    ),
    Case(
        "reads-the-stdin-of-process-1",
        ("reading stdin",),
        'timeout 1 cat /proc/1/fd/0 /proc/$PPID/fd/0; echo "read $?"; exit 4',
        exits(4),
        also=lambda found: found.stdout.head in ("read 124\n", "read 1\n", "read 0\n"),
    ),
    Case(
        "writes-to-its-own-channels",
        ("writing to its own stdin/stdout channel",),
        _OWN_CHANNELS,
        exits(5),
        "python",
    ),
    Case(
        "forges-frames-and-results",
        ("printing whatever our protocol looks like",),
        _FORGED_FRAMES,
        exits(1),
        "python",
        also=lambda found: found.stdout.bytes == found.stderr.bytes and found.stdout.head.startswith("ready\n"),
    ),
    Case(
        "says-ready-over-and-over-and-fails",
        ("printing whatever our protocol looks like",),
        "for i in $(seq 200); do echo ready; echo ready >&2; done; exit 2",
        exits(2),
    ),
    Case("kills-everything", ("killing every process it can",), "kill -9 -1; sleep 3600", killed(9)),
    Case(
        "terminates-everything",
        ("killing every process it can",),
        "kill -TERM -1 1 $PPID; kill -TERM -1; sleep 3600",
        killed(15),
    ),
    Case(
        "kills-process-1-and-its-parent",
        ("killing every process it can",),
        "kill -9 1; kill -STOP 1; kill -9 $PPID; sleep 3600",
        killed(9),
    ),
    Case(
        "stops-its-parent-and-exits",
        ("killing every process it can",),
        "kill -STOP $PPID; exit 1",
        SLEEPS,
        limits=_HANGS,
    ),
    Case(
        "executes-itself-for-ever",
        ("exec tricks",),
        "import os, sys\nos.execv(sys.executable, [sys.executable, *sys.argv])",
        COMPUTES,
        "python",
        _HANGS,
    ),
    Case(
        "executes-something-under-our-name",
        ("exec tricks",),
        "exec -c -a ml-bench bash -c 'exec -a timeout bash -c \"exit 3\"'",
        exits(3),
    ),
    Case(
        "executes-from-memory",
        ("exec tricks",),
        "import os\n"
        "fd = os.memfd_create('hostile', 0)\n"
        "os.write(fd, b'#!/bin/bash\\nexit 8\\n')\n"
        "os.execve(f'/proc/self/fd/{fd}', ['hostile'], {})",
        exits(8),
        "python",
    ),
    Case(
        "executes-with-all-channels-elsewhere",
        ("exec tricks",),
        "exec 1>/proc/1/fd/2 2>/proc/1/fd/1; echo swapped; exec setsid -w bash -c 'exit 11'",
        exits(11),
    ),
    Case("rewrites-its-own-program", ("exec tricks",), 'echo "exit 0" > "$0"; exec bash "$0"', exits(0)),
    Case("exits-as-timeout-does", ("exit codes 0-255",), "exit 124", exits(124)),
    Case("exits-as-a-missing-program-does", ("exit codes 0-255",), "no-such-program-at-all", exits(127)),
    Case("exits-as-a-signal-would", ("exit codes 0-255",), "exit 137", killed(9)),
    Case("exits-with-255", ("exit codes 0-255",), "exit -1", exits(255)),
    Case(
        "aborts",
        ("exit by each signal",),
        "import os; os.abort()",
        killed(6),
        "python",
    ),
    Case(
        "crashes-deep-in-c",
        ("exit by each signal",),
        "import ctypes; ctypes.string_at(0)",
        killed(11),
        "python",
    ),
    Case(
        "stops-itself",
        ("exit by each signal",),
        "kill -STOP $$; exit 0",
        Ending("still_running", None, SLEEPS.passes),
        limits=_HANGS,
    ),
    Case(
        "meets-the-largest-file",
        ("exit by each signal",),
        "head -c 100000000 /dev/zero > hostile-large",
        Ending("killed", 128 + 25, FAILS),
    ),
)
