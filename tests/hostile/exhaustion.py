"""Candidates that use up what they share with others: processes, threads, memory, disk, files."""

from __future__ import annotations

from ml_bench_metric.sandbox.limits import MIB
from tests.hostile.case import COMPUTES, DISK_FULL, HANG_SECONDS, Case, exits, out_of_memory

_HANGS = {"seconds": HANG_SECONDS}

_FORKS = """
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
"""

_THREADS = """
import threading, time

while True:
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
"""

_FILL = """
import os
number = 0
while True:
    with open(f"{folder}/hostile-{{number}}", "wb") as file:
        file.write(b"x" * 1_000_000)
    number += 1
"""

_MANY_FILES = """
import os

number = 0
while True:
    if number % 1000 == 0:
        folder = f"hostile-{number}"
        os.mkdir(folder)
    os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY))
    number += 1
"""

CASES = (
    Case("fork-bomb-in-python", ("fork bomb",), _FORKS, COMPUTES, "python", _HANGS),
    Case(
        "fork-bomb-in-bash",
        ("fork bomb",),
        # Apart from the program itself, which would wait a second for each process that it does not get.
        "(bomb() { bomb | bomb & }; bomb) 2>/dev/null & while :; do :; done",
        COMPUTES,
        limits=_HANGS,
    ),
    Case(
        "thread-bomb",
        ("thread bomb",),
        _THREADS,
        exits(1),
        "python",
        also=lambda found: "can't start new thread" in found.stderr.head + found.stderr.tail,
    ),
    Case(
        "memory-bomb",
        ("memory bomb: anonymous",),
        "kept = []\nwhile True: kept.append(bytearray(10_000_000))",
        out_of_memory(),
        "python",
        also=lambda found: (found.peak_memory_bytes or 0) <= 128 * MIB and found.oom_kills >= 1,
    ),
    Case(
        "memory-bomb-of-many-processes",
        ("memory bomb: anonymous",),
        "import os, sys, time\n"
        "for _ in range(20):\n    if os.fork() == 0:\n        kept = bytearray(30_000_000); time.sleep(3600)\n"
        "sys.exit(os.wait()[1] != 0)",
        out_of_memory(1),
        "python",
    ),
    Case(
        "memory-bomb-in-a-child-that-is-hidden",
        ("memory bomb: anonymous",),
        "python -c 'x = bytearray(10**9)'; exit 1",
        out_of_memory(1),
    ),
    Case(
        "memory-bomb-of-page-cache",
        ("memory bomb: page cache",),
        "for i in 1 2 3; do head -c 100000000 /dev/zero > hostile-$i && cat hostile-$i > /dev/null || exit 1; done",
        exits(0),
        limits={"memory_bytes": 64 * MIB, "disk_bytes": 1024 * MIB, "seconds": 60},
        also=lambda found: (found.peak_memory_bytes or 0) <= 64 * MIB and not found.oom_kills,
    ),
    Case(
        "memory-bomb-in-shm",
        ("memory bomb: /dev/shm",),
        "with open('/dev/shm/hostile', 'wb', 0) as file:\n    while True: file.write(bytes(1_000_000))",
        out_of_memory(),
        "python",
        {"shm_bytes": 512 * MIB, "memory_bytes": 64 * MIB, "disk_bytes": 1024 * MIB},
    ),
    Case(
        "fills-shm",
        ("memory bomb: /dev/shm",),
        "with open('/dev/shm/hostile', 'wb', 0) as file:\n    while True: file.write(bytes(1_000_000))",
        exits(1),
        "python",
        also=lambda found: "No space left" in found.stderr.head,
    ),
    Case(
        "memory-bomb-in-tmpfs",
        ("memory bomb: tmpfs",),
        "with open('/tmp/hostile', 'wb', 0) as file:\n    while True: file.write(bytes(1_000_000))",
        out_of_memory(),
        "python",
        {"tmp_bytes": 512 * MIB, "memory_bytes": 64 * MIB, "disk_bytes": 1024 * MIB},
    ),
    Case(
        "fills-the-layer",
        ("disk filler in the layer",),
        _FILL.format(folder=".") + "\n",
        DISK_FULL,
        "python",
    ),
    Case(
        "fills-the-layer-slowly-and-waits",
        ("disk filler in the layer",),
        "for i in 1 2 3 4; do head -c 30000000 /dev/zero > hostile-$i; done; sleep 3600",
        DISK_FULL,
    ),
    Case(
        "fills-the-layer-with-closed-descriptors",
        ("disk filler in the layer",),
        "exec 0<&- 1>&- 2>&-; for i in 1 2 3 4; do head -c 30000000 /dev/zero > hostile-$i; done; sleep 3600",
        DISK_FULL,
    ),
    Case(
        "fills-the-layer-with-deleted-files",
        ("disk filler in the layer",),
        "import os, time\nkept = []\n"
        "for number in range(4):\n"
        "    file = open(f'hostile-{number}', 'wb'); os.remove(file.name); kept.append(file)\n"
        "    file.write(b'x' * 30_000_000); file.flush()\n"
        "time.sleep(3600)",
        DISK_FULL,
        "python",
    ),
    Case(
        "fills-the-layer-out-of-sight",
        ("disk filler in the layer",),
        "import os, time\n"
        "for _ in range(40):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        "for number in range(4):\n    open(str(number), 'wb').write(b'x' * 30_000_000)\n"
        "time.sleep(3600)",
        DISK_FULL,
        "python",
    ),
    Case(
        "fills-tmp",
        ("disk filler in /tmp",),
        _FILL.format(folder="/tmp"),
        exits(1),
        "python",
        also=lambda found: "No space left" in found.stderr.head,
    ),
    Case("a-million-files", ("a million small files",), _MANY_FILES, COMPUTES, "python", _HANGS),
    Case(
        "a-million-files-in-tmp",
        ("a million small files",),
        "cd /tmp; i=0; while :; do : > hostile-$((i++)) || exit 7; done",
        # Files in memory count as memory, empty ones too.
        out_of_memory(),
        limits={"memory_bytes": 64 * MIB, "seconds": 60},
    ),
)
