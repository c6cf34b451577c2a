"""What isolation costs: candidates a second and CPU per candidate, side by side in one run.

    python benchmarks/overhead.py [--count 40] [--rounds 3] [--workers 1,2,4,8] [--json]

Four ways to run the same Python program: `process` (a bare process of the host, no isolation), `code_eval` (the metric
of `evaluate`: a forked process per candidate), `docker run` (the command, once per candidate, with the judge's limits)
and `ml-bench` (the judge: extraction, checks, a fresh container, facts, removal). There are two programs, one that does
nothing and one that sleeps for a second, of which a quarter as many run. Rounds alternate between the ways, so that a
machine that slows down slows all of them. Wall time is per candidate (1 / rate); CPU is that of the whole machine,
engine included, so run nothing else beside it. `overhead` is the worker's time beyond the program's own: what is not
overlapped with another candidate of the same worker. Last comes the growth of this process's memory from few candidates
to many.

`code_eval` comes from the Hub, or from the folder or script that `--code-eval` names; where it cannot be had it is left
out, which is said.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from ml_bench_metric.environments.images import TaskImage, list_images, serving_images
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.limits import GIB, MIB, Limits
from ml_bench_metric.tasks import Task, load_tasks
from ml_bench_metric.workers import Workers, allot

PROGRAMS = {"nothing": ("pass", 0.0), "1 second": ("import time; time.sleep(1)", 1.0)}
"""Name -> program, and the seconds that it takes by itself."""

LIMITS = Limits(memory_bytes=GIB)

_Way = Callable[[str, int, int], None]
"""Runs a program so many times with so many workers."""


@dataclass(frozen=True)
class Row:
    """One way with one program and one number of workers: medians over the rounds, in seconds per candidate."""

    program: str
    way: str
    workers: int
    per_second: float
    wall_seconds: float
    cpu_seconds: float
    overhead_seconds: float
    """Of a worker, per candidate: its share of the wall time beyond the program's own."""


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40, help="candidates per measurement; a quarter of the slow ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", default="1,2,4,8")
    parser.add_argument("--image", help="by default the sample's")
    parser.add_argument("--code-eval", default="code_eval", help="what `evaluate.load` takes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    counts = [int(part) for part in options.workers.split(",")]

    with DockerSandbox() as sandbox:
        serving = serving_images(list_images(sandbox.client), "tiny-gan", "tiny-gan/1")
        if not options.image and not serving:
            sys.exit("no image: run `make images`, or give --image")
        image = options.image or serving[0].name
        task = next(task for task in load_tasks("sample", "L").tasks if task.language == "python")
        ways: dict[str, _Way] = {
            "process": _process,
            "docker run": lambda program, count, workers: _docker_run(image, program, count, workers),
            "ml-bench": lambda program, count, workers: _judge(sandbox, image, task, program, count, workers),
        }
        if (metric := _code_eval(options.code_eval)) is not None:
            ways["code_eval"] = metric
        for run in ways.values():
            run("pass", 2, 1)
        measured: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
        for _ in range(options.rounds):
            for program, (text, seconds) in PROGRAMS.items():
                count = max(8, options.count // 4) if seconds else options.count
                for workers in counts:
                    for name, run in ways.items():
                        measured.setdefault((program, name, workers), []).append(_measure(run, text, count, workers))
        growth = _memory_growth(sandbox, image, task)

    rows = [
        Row(
            program=program,
            way=name,
            workers=workers,
            per_second=statistics.median(1 / wall for wall, _ in readings),
            wall_seconds=(wall := statistics.median(wall for wall, _ in readings)),
            cpu_seconds=statistics.median(cpu for _, cpu in readings),
            overhead_seconds=wall * workers - PROGRAMS[program][1],
        )
        for (program, name, workers), readings in measured.items()
    ]
    if options.json:
        print(
            json.dumps({"rows": [asdict(row) for row in rows], "memory_growth_bytes_per_candidate": growth}, indent=2)
        )
        return
    print(f"{options.count} candidates, median of {options.rounds} rounds")
    print(
        f"{'program':<9} {'workers':>7}  {'way':<11} {'per second':>10} {'wall s':>8} {'CPU s':>8} {'overhead s':>11} "
        f"{'of docker run':>14}"
    )
    rate = {(row.program, row.way, row.workers): row.per_second for row in rows}
    for row in rows:
        ratio = row.per_second / rate[row.program, "docker run", row.workers]
        print(
            f"{row.program:<9} {row.workers:>7}  {row.way:<11} {row.per_second:>10.2f} {row.wall_seconds:>8.3f} "
            f"{row.cpu_seconds:>8.3f} {row.overhead_seconds:>11.3f} {ratio:>13.2f}x"
        )
    print(f"memory of the judge: {growth:+.0f} bytes per candidate, over {_MANY - _FEW} more candidates")


def _measure(run: _Way, program: str, count: int, workers: int) -> tuple[float, float]:
    """Return wall and machine-wide CPU seconds per candidate."""
    began, busy = time.monotonic(), _busy_seconds()
    run(program, count, workers)
    return (time.monotonic() - began) / count, (_busy_seconds() - busy) / count


def _busy_seconds() -> float:
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    # Fields of proc(5): user nice system idle iowait irq softirq …; all but idle and iowait, in hundredths of a second.
    return (sum(fields[:3]) + sum(fields[5:7])) / 100


def _process(program: str, count: int, workers: int) -> None:
    def one(_: int) -> None:
        subprocess.run([sys.executable, "-c", program], check=True, stdin=subprocess.DEVNULL)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, range(count)))


def _code_eval(where: str) -> _Way | None:
    """Return a way that runs programs in `evaluate`'s own metric; None where it cannot be had."""
    import evaluate

    # It asks for the user's consent in this way; these programs are ours.
    os.environ["HF_ALLOW_CODE_EVAL"] = "1"
    try:
        metric = evaluate.load(where)
    except Exception as error:
        print(f"WITHOUT code_eval: {error}", file=sys.stderr)
        return None

    def run(program: str, count: int, workers: int) -> None:
        scores, _ = metric.compute(
            references=["assert True"], predictions=[[program] * count], k=[1], num_workers=workers, timeout=10.0
        )
        if scores["pass@1"] != 1.0:
            sys.exit(f"the trivial program failed: {scores}")

    return run


def _docker_run(image: str, program: str, count: int, workers: int) -> None:
    command = [
        *("docker", "run", "--rm", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--init"),
        *("--user=1000:1000", f"--memory={LIMITS.memory_bytes}", f"--memory-swap={LIMITS.memory_bytes}"),
        *(f"--pids-limit={LIMITS.processes}", f"--cpus={LIMITS.cpus}", f"--shm-size={LIMITS.shm_bytes}"),
        *(f"--tmpfs=/tmp:exec,size={LIMITS.tmp_bytes}", "--log-driver=none", image, "python", "-c", program),
    ]

    def one(_: int) -> None:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, range(count)))


def _judge(sandbox: DockerSandbox, image: str, task: Task, program: str, count: int, workers: int) -> None:
    served = TaskImage(sandbox.image_digest(image))
    team: Workers = allot(workers, LIMITS, sandbox.capacity(), oversubscribe=True)
    evaluation = Evaluation(sandbox, Settings(extract="none", limits=LIMITS), lambda _: served, team)
    for result in evaluation.run(Candidate(task, index, program) for index in range(count)):
        if result.execution is None or result.execution.status != 0:
            sys.exit(f"the trivial program failed: {result.execution}")


_FEW, _MANY = 20, 120


def _memory_growth(sandbox: DockerSandbox, image: str, task: Task) -> float:
    """Return by how many bytes the peak of this process's memory grows per candidate, beyond the first few."""
    _judge(sandbox, image, task, "pass", _FEW, 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _judge(sandbox, image, task, "pass", _MANY, 4)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * MIB / 1024 / (_MANY - _FEW)


if __name__ == "__main__":
    main()
