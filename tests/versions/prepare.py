"""Make what `check.py` loads, on the newest version of `datasets`. Usage: prepare.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

import datasets

from ml_bench_hub.build import build_dataset
from ml_bench_hub.register import register
from tests.hf_caches import task_rows, write_source

work = Path(sys.argv[1])
source = write_source(work / "source", task_rows(5), task_rows(2))
build_dataset(work / "built/ml-bench", source=str(source))
datasets.config.HF_DATASETS_CACHE = work / "registered"
register(str(source), beside=work)
