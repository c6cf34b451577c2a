"""Whether the workers of a long evaluation are ever idle: its wall time against the ideal.

    python benchmarks/long_run.py [--count 1000] [--seconds 1] [--workers 2] [--image IMAGE]

Every candidate sleeps for the same time in a fresh container, so the ideal is their number times that, divided by the
number of workers. What is beyond it is what a worker waits between the end of one candidate and the beginning of the
next, and what an interpreter takes to start. Sleeping, because candidates that compute also compete with the engine for
the CPUs, and that is a property of the machine; `--busy` shows it.
"""

from __future__ import annotations

import argparse
import sys
import time

from ml_bench_metric.environments.images import TaskImage, list_images, serving_images
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.limits import GIB, Limits
from ml_bench_metric.tasks import load_tasks
from ml_bench_metric.workers import allot

LIMITS = Limits(memory_bytes=GIB)


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1.0, help="that every candidate takes; below 7")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--image", help="by default the sample's")
    parser.add_argument("--busy", action="store_true", help="compute for that long instead of sleeping")
    options = parser.parse_args()
    program = f"import time; time.sleep({options.seconds})"
    if options.busy:
        program = f"import time\nend = time.monotonic() + {options.seconds}\nwhile time.monotonic() < end: pass"

    with DockerSandbox() as sandbox:
        serving = serving_images(list_images(sandbox.client), "tiny-gan", "tiny-gan/1")
        if not options.image and not serving:
            sys.exit("no image: run `make images`, or give --image")
        image = TaskImage(sandbox.image_digest(options.image or serving[0].name))
        task = next(task for task in load_tasks("sample", "L").tasks if task.language == "python")
        workers = allot(options.workers, LIMITS, sandbox.capacity())
        if len(workers.slots) < options.workers:
            sys.exit(f"there are CPUs and memory for {len(workers.slots)} workers: {workers.note}")
        evaluation = Evaluation(sandbox, Settings(extract="none", limits=LIMITS), lambda _: image, workers)
        began = time.monotonic()
        for result in evaluation.run(Candidate(task, index, program) for index in range(options.count)):
            if result.execution is None or result.execution.status != 0:
                sys.exit(f"a candidate failed: {result.execution}")
        wall = time.monotonic() - began
    ideal = options.count * options.seconds / options.workers
    print(
        f"{options.count} candidates of {options.seconds} s, {options.workers} workers: {wall:.1f} s, "
        f"ideal {ideal:.1f} s, {100 * (wall / ideal - 1):+.1f} %"
    )


if __name__ == "__main__":
    main()
