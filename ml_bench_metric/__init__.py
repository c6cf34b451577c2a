"""The judge of ML-Bench: candidates in, verdicts and Pass@k out.

Importing this package is cheap: the `evaluate` module and the Docker client load where they are used.
"""

from pathlib import Path


def path() -> str:
    """Return the path of the `evaluate` module's file, for `evaluate.load(ml_bench_metric.path())`."""
    return str(Path(__file__).with_name("ml_bench.py"))
