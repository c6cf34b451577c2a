"""Failed results for tests of the causes, from a program and what it printed. All of it is written for the tests."""

from __future__ import annotations

from typing import Any

from ml_bench_metric.results import Result
from ml_bench_metric.sandbox.execution import Execution, Output
from tests.result_builders import result

PYTHON_FILE = "/workspace/tiny/ml_bench_candidate.py"
BASH_FILE = "/tmp/ml_bench_candidate.sh"


def output(text: str) -> Output:
    return Output(head=text, bytes=len(text.encode("utf-8", "surrogatepass")))


def failed(program: str, stderr: str = "", *, stdout: str = "", status: int = 1, **more: Any) -> Result:
    """A candidate of a bash task, or of a Python task with `type="Python Code"`, that ended with a status."""
    ran = Execution(outcome="exited", status=status, stdout=output(stdout), stderr=output(stderr))
    return result(text=program, execution=ran, **more)


def python_failed(program: str, stderr: str = "", **more: Any) -> Result:
    return failed(program, stderr, type="Python Code", **more)


def traceback(error: str, *frames: tuple[str, str]) -> str:
    """A traceback as Python prints it: for each frame its file and its line of code, the last call last."""
    lines = [f'  File "{file}", line 3, in f\n    {source}\n' for file, source in frames]
    return "Traceback (most recent call last):\n" + "".join(lines) + error + "\n"
