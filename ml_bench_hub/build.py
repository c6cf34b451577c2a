"""The folder of the data set's repository on the Hub."""

from __future__ import annotations

import re
from pathlib import Path

from ml_bench_hub.card import PLACEHOLDER, for_namespace, readme, resource
from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import About, File, Kind, Manifest, read_manifest, writing
from ml_bench_hub.front_matter import to_yaml
from ml_bench_hub.leaderboard import EVAL_FILE, Leaderboard, eval_definition
from ml_bench_hub.tables import Origin, Progress, Table, open_origin, tables, write_table
from ml_bench_metric.judge import harness_version

DATASET_NAME = "ml-bench"
"""Name of the data set's repository, without its namespace."""

EXAMPLE_FILE = ".eval_results/ml-bench.yaml.example"
"""Where a data set repository shows how a model repository states results. By its suffix it is no statement itself."""

_LICENCE = """\
The tasks are the rows of ML-Bench (arXiv:2311.09835), which its authors publish under the MIT licence as the data set
super-dainiu/ml-bench on the Hugging Face Hub. Copyright: the authors of ML-Bench. The column `oracle` quotes the
repositories that the tasks are about; the configuration `repositories` names the licence of each.

Everything else in this repository is under the following licence.

"""

_EXAMPLE = """\
# How a model's repository states a result, in its file .eval_results/ml-bench.yaml. The value is made up; `ml-bench hub
# results RUN_DIR` writes the file from a run.
"""


def checked_namespace(namespace: str | None) -> str | None:
    """Return the namespace.

    Raises:
        HubError: it cannot be one.
    """
    if namespace is not None and not re.fullmatch(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?", namespace, re.ASCII):
        raise HubError(
            f"namespace {namespace!r} is no name of a user or organisation on the Hub: letters, digits, `-`, `_`, `.`"
        )
    return namespace


def about(kind: Kind, name: str, namespace: str | None, origin: Origin) -> About:
    """Return what a folder's manifest says of its making."""
    return About(
        kind=kind,
        name=name,
        namespace=checked_namespace(namespace),
        source=origin.public_name,
        digests=origin.digests,
        harness=harness_version(),
    )


def build_dataset(
    out: Path,
    *,
    source: str | None = None,
    revision: str | None = None,
    namespace: str | None = None,
    eval_yaml: bool = True,
    progress: Progress = lambda line: None,
) -> Manifest:
    """Write the data set's repository into a folder, whole or not at all, and return its manifest.

    Equal rows, options and versions (of this package and of pyarrow) give equal bytes.

    Args:
        out: new, empty, or written by this function and unchanged since.
        source: where the rows come from, see `ml_bench_dataset.read_split`.
        revision: of the Hub repository that they come from.
        namespace: where the folder will be published; named in the card.
        eval_yaml: whether to define the leaderboards. The Hub takes the definition only from frameworks that it lists.
        progress: receives one line for each split.

    Raises:
        HubError: `out` is something else, or the source cannot be the whole data set.
        DataError: the source cannot be read, or its rows are faulty.
    """
    checked_namespace(namespace)
    origin = open_origin(source, revision, progress)
    with writing(out, about("dataset", DATASET_NAME, namespace, origin)) as folder:
        written: list[tuple[Table, File]] = []
        for table in tables(origin, progress):
            file = write_table(table, folder)
            written.append((table, file))
            progress(f"{table.path}: {table.rows.num_rows} rows, {file.size / 1000:,.0f} kB")
        texts = {
            "README.md": readme(written, namespace),
            "LICENSE": licence(),
            EXAMPLE_FILE: _example(namespace),
        }
        if eval_yaml:
            texts[EVAL_FILE] = to_yaml(eval_definition())
        write_texts(folder, texts)
    return read_manifest(out)


def licence() -> str:
    """Return the licence of a repository that holds rows of ML-Bench."""
    return _LICENCE + resource("LICENSE")


def write_texts(folder: Path, texts: dict[str, str]) -> None:
    """Write text files below a folder, as UTF-8 with the line ends that they have."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def _example(namespace: str | None) -> str:
    entry = {
        "dataset": {"id": f"{PLACEHOLDER}/{DATASET_NAME}", "task_id": Leaderboard("original", 5).task_id},
        "value": 12.34,
        "date": "2026-01-31",
        "notes": "pass@5 in percent; rule original; unbiased estimator; split L, 260 tasks; n = 1300 candidates; …",
    }
    return for_namespace(_EXAMPLE + to_yaml([entry]), namespace)
