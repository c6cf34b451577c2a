"""What isolation costs: candidates a second and CPU per candidate, side by side in one run.

    python benchmarks/overhead.py [--count 40] [--rounds 3] [--workers 1,2,4,8] [--image IMAGE] [--json]

Three ways to run the same trivial Python program: `process` (a bare process of the host, no isolation), `docker run`
(the command, once per candidate, with the judge's limits) and `ml-bench` (the judge: extraction, checks, a fresh
container, facts, removal). Rounds alternate between the ways, so that a machine that slows down slows all of them.
Wall time is per candidate (1 / rate); CPU is that of the whole machine, engine included, so run nothing else beside
it. Last comes the growth of this process's memory from few candidates to many.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from ml_bench_metric.environments.images import TaskImage, list_images, serving_images
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.limits import GIB, MIB, Limits
from ml_bench_metric.tasks import Task, load_tasks
from ml_bench_metric.workers import Workers, allot

PROGRAM = "pass"
LIMITS = Limits(memory_bytes=GIB)


@dataclass(frozen=True)
class Row:
    """One way with one number of workers: medians over the rounds, times in seconds per candidate."""

    way: str
    workers: int
    per_second: float
    wall_seconds: float
    cpu_seconds: float


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40, help="candidates per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--image", help="by default the sample's")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts = [int(part) for part in options.workers.split(",")]

    with DockerSandbox() as sandbox:
        serving = serving_images(list_images(sandbox.client), "tiny-gan", "tiny-gan/1")
        if not options.image and not serving:
            sys.exit("no image: run `make images`, or give --image")
        image = options.image or serving[0].name
        task = next(task for task in load_tasks("sample", "L").tasks if task.language == "python")
        ways: dict[str, Callable[[int, int], None]] = {
            "process": _process,
            "docker run": lambda count, workers: _docker_run(image, count, workers),
            "ml-bench": lambda count, workers: _judge(sandbox, image, task, count, workers),
        }
        for run in ways.values():
            run(2, 1)
        measured: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for _ in range(options.rounds):
            for workers in counts:
                for name, run in ways.items():
                    measured.setdefault((name, workers), []).append(_measure(run, options.count, workers))
        growth = _memory_growth(sandbox, image, task)

    rows = [
        Row(
            way=name,
            workers=workers,
            per_second=statistics.median(1 / wall for wall, _ in readings),
            wall_seconds=statistics.median(wall for wall, _ in readings),
            cpu_seconds=statistics.median(cpu for _, cpu in readings),
        )
        for (name, workers), readings in measured.items()
    ]
    if options.json:
        print(
            json.dumps({"rows": [asdict(row) for row in rows], "memory_growth_bytes_per_candidate": growth}, indent=2)
        )
        return
    print(f"{options.count} candidates, median of {options.rounds} rounds")
    print(f"{'workers':>7}  {'way':<11} {'per second':>10} {'wall s':>8} {'CPU s':>8} {'of docker run':>14}")
    rate = {(row.way, row.workers): row.per_second for row in rows}
    for row in rows:
        ratio = row.per_second / rate["docker run", row.workers]
        print(
            f"{row.workers:>7}  {row.way:<11} {row.per_second:>10.2f} {row.wall_seconds:>8.3f} "
            f"{row.cpu_seconds:>8.3f} {ratio:>13.2f}x"
        )
    print(f"memory of the judge: {growth:+.0f} bytes per candidate, over {_MANY - _FEW} more candidates")


def _measure(run: Callable[[int, int], None], count: int, workers: int) -> tuple[float, float]:
    """Return wall and machine-wide CPU seconds per candidate."""
    began, busy = time.monotonic(), _busy_seconds()
    run(count, workers)
    return (time.monotonic() - began) / count, (_busy_seconds() - busy) / count


def _busy_seconds() -> float:
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    # Fields of proc(5): user nice system idle iowait irq softirq …; all but idle and iowait, in hundredths of a second.
    return (sum(fields[:3]) + sum(fields[5:7])) / 100


def _process(count: int, workers: int) -> None:
    def one(_: int) -> None:
        subprocess.run([sys.executable, "-c", PROGRAM], check=True, stdin=subprocess.DEVNULL)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, range(count)))


def _docker_run(image: str, count: int, workers: int) -> None:
    command = [
        *("docker", "run", "--rm", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--init"),
        *("--user=1000:1000", f"--memory={LIMITS.memory_bytes}", f"--memory-swap={LIMITS.memory_bytes}"),
        *(f"--pids-limit={LIMITS.processes}", f"--cpus={LIMITS.cpus}", f"--shm-size={LIMITS.shm_bytes}"),
        *(f"--tmpfs=/tmp:exec,size={LIMITS.tmp_bytes}", "--log-driver=none", image, "python", "-c", PROGRAM),
    ]

    def one(_: int) -> None:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, range(count)))


def _judge(sandbox: DockerSandbox, image: str, task: Task, count: int, workers: int) -> None:
    served = TaskImage(sandbox.image_digest(image))
    team: Workers = allot(workers, LIMITS, sandbox.capacity(), oversubscribe=True)
    evaluation = Evaluation(sandbox, Settings(extract="none", limits=LIMITS), lambda _: served, team)
    for result in evaluation.run(_candidates(task, count)):
        if result.execution is None or result.execution.status != 0:
            sys.exit(f"the trivial program failed: {result.execution}")


def _candidates(task: Task, count: int) -> Iterator[Candidate]:
    return (Candidate(task, index, PROGRAM) for index in range(count))


_FEW, _MANY = 20, 120


def _memory_growth(sandbox: DockerSandbox, image: str, task: Task) -> float:
    """Return by how many bytes the peak of this process's memory grows per candidate, beyond the first few."""
    _judge(sandbox, image, task, _FEW, 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _judge(sandbox, image, task, _MANY, 4)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * MIB / 1024 / (_MANY - _FEW)


if __name__ == "__main__":
    main()
