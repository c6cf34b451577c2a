"""Every way to load the data set, on the version of `datasets` that runs this file.

`scripts/test-datasets-versions.sh` runs it in a virtual environment for each version, with this project on the path but
not installed. Usage: check.py SOURCE BUILT REGISTERED, where SOURCE is a folder like upstream's repository, BUILT is
`ml-bench hub build` of it, and REGISTERED a cache of `datasets` that the newest version has registered it in.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import datasets
import evaluate
import huggingface_hub
import pyarrow

import ml_bench_dataset
from ml_bench_dataset import CONFIGURATIONS, REPOSITORIES, TRAINING_SPLITS, MLBench, Repository, read_split
from ml_bench_hub.register import register, unregister
from ml_bench_hub.register_datasets import MARK

ROOT = Path(ml_bench_dataset.__file__).parent
SOURCE, BUILT, REGISTERED = (Path(argument).resolve() for argument in sys.argv[1:4])
MAJOR = int(datasets.__version__.partition(".")[0])

Rows = dict[str, list[dict[str, Any]]]


def expected(configuration: str) -> Rows:
    """Return the rows of a configuration as this project reads them without `datasets`."""
    if configuration == "repositories":
        return {"test": [_repository_row(item) for item in REPOSITORIES]}
    source = "sample" if configuration == "sample" else str(SOURCE)
    splits = [split for split in CONFIGURATIONS[configuration] if split not in TRAINING_SPLITS]
    return {split: read_split(source, split).rows for split in splits}


def _repository_row(item: Repository) -> dict[str, Any]:
    facts = {name: value for name, value in vars(item).items() if name != "tasks"}
    return {**facts, **{f"tasks_{split}": rows for split, rows in item.tasks.items()}}


EXPECTED = {configuration: expected(configuration) for configuration in CONFIGURATIONS}


def same(loaded: Any, configuration: str) -> None:
    """Require that splits, columns, types and values are the expected ones."""
    rows = EXPECTED[configuration]
    assert list(loaded) == list(rows), (configuration, list(loaded))
    for split, wanted in rows.items():
        found = [dict(row) for row in loaded[split]]
        assert found == wanted, (configuration, split)
        assert [list(row) for row in found] == [list(row) for row in wanted], (configuration, split)


def refused(kind: type[Exception], words: Iterable[str], *arguments: Any, **options: Any) -> None:
    """Require that `load_dataset` fails, with these words in the error."""
    try:
        loaded = datasets.load_dataset(*arguments, **options)
    except kind as error:
        assert all(word in str(error) for word in words), f"{words} are not all in: {error}"
    else:
        raise AssertionError(f"load_dataset{arguments} gave {loaded}")


def by_name_in_the_current_folder() -> None:
    """Require that the bare name works with everything that `load_dataset` can do with it."""
    same(datasets.load_dataset("ml-bench"), "default")
    for configuration in CONFIGURATIONS:
        same(datasets.load_dataset("ml-bench", configuration), configuration)
        same(datasets.load_dataset("ml-bench", configuration, streaming=True), configuration)
    same(datasets.load_dataset("ml-bench", num_proc=2), "default")
    wanted = EXPECTED["default"]["L"]
    assert datasets.load_dataset("ml-bench", split="L").to_list() == wanted
    assert datasets.load_dataset("ml-bench", split="L[1:3]").to_list() == wanted[1:3]
    both = datasets.load_dataset("ml-bench", split="L+A")
    assert both.num_rows == len(wanted) + len(EXPECTED["default"]["A"])
    refused(ValueError, CONFIGURATIONS, "ml-bench", "nope")
    refused(ValueError, ["'L', 'A'"], "ml-bench", split="nope")


def check_builder() -> None:
    for configuration in CONFIGURATIONS:
        source = str(SOURCE) if configuration in ("default", "ML-Bench-L", "ML-Bench-A") else None
        builder: Any = MLBench(config_name=configuration, source=source)
        builder.download_and_prepare()
        same(builder.as_dataset(), configuration)
        same(builder.as_streaming_dataset(), configuration)


def check_built_folder() -> None:
    os.chdir(BUILT.parent)
    by_name_in_the_current_folder()
    same(datasets.load_dataset(str(BUILT)), "default")
    assert set(datasets.get_dataset_config_names("ml-bench")) == set(CONFIGURATIONS)


def check_loading_script() -> None:
    script = str(ROOT / "ml_bench_dataset.py")
    if MAJOR >= 4:
        refused(RuntimeError, ["scripts are no longer supported"], script, "sample")
        return
    for configuration in CONFIGURATIONS:
        options = {"source": str(SOURCE)} if configuration in ("default", "ML-Bench-L", "ML-Bench-A") else {}
        loaded = datasets.load_dataset(script, configuration, trust_remote_code=True, **options)
        same(loaded, configuration)
    stream = datasets.load_dataset(script, "sample", trust_remote_code=True, streaming=True)
    same(stream, "sample")
    same(datasets.load_dataset(script, trust_remote_code=True, source=str(SOURCE)), "default")


def check_clone_and_registration() -> None:
    """Beside a clone, in an empty folder, beside the clone that the registration filled, and after its removal."""
    beside, empty = Path("beside").resolve(), Path("empty").resolve()
    empty.mkdir()
    clone = beside / "ml-bench"
    clone.mkdir(parents=True)
    for name in (".huggingface.yaml", "ml_bench_dataset.py", "README.md", "tests", "ml_bench_sample"):
        copy: Callable[..., Any] = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, clone / name)
    os.chdir(beside)
    same(datasets.load_dataset("ml-bench", "sample"), "sample")
    for configuration in CONFIGURATIONS:
        if configuration != "sample":
            refused(FileNotFoundError, ["made-by-ml-bench-register"], "ml-bench", configuration)
    refused(FileNotFoundError, ["made-by-ml-bench-register"], "ml-bench")

    assert {step.action for step in register(str(SOURCE))} == {"registered"}
    assert {step.action for step in register(str(SOURCE))} == {"unchanged"}
    os.chdir(empty)
    by_name_in_the_current_folder()
    assert evaluate.load("ml_bench").name == "ml_bench"
    os.chdir(beside)
    by_name_in_the_current_folder()
    # What was loaded from the clone is in the cache too, under the same name, and newer.
    os.chdir(empty)
    by_name_in_the_current_folder()

    os.chdir(beside)
    assert {step.action for step in unregister()} == {"removed"}
    refused(FileNotFoundError, ["made-by-ml-bench-register"], "ml-bench")
    assert not list(Path(datasets.config.HF_DATASETS_CACHE).glob(f"ml-bench/*/*/*/{MARK}"))


def check_registration_by_the_newest_version() -> None:
    """Several versions share one cache where somebody has several virtual environments."""
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    datasets.config.HF_DATASETS_CACHE = REGISTERED
    by_name_in_the_current_folder()


def main() -> None:
    """Run all checks, each in an empty folder and with an empty cache."""
    versions = f"datasets {datasets.__version__}, huggingface_hub {huggingface_hub.__version__}"
    checks = [check for name, check in globals().items() if name.startswith("check_")]
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    logging.getLogger("ml_bench_dataset").setLevel(logging.ERROR)
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            datasets.config.HF_DATASETS_CACHE = Path(folder, "cache")
            try:
                check()
            except BaseException:
                print(f"{versions}: {check.__name__} failed", file=sys.stderr)
                raise
            finally:
                os.chdir(ROOT)
    print(f"{versions}, pyarrow {pyarrow.__version__}: {len(checks)} passed")


if __name__ == "__main__":
    main()
