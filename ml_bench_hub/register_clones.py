"""The rows that `load_dataset("ml-bench")` finds beside a git clone of this project that is called `ml-bench`.

There `datasets` takes the clone for the data set and never looks into its cache. The clone's `.huggingface.yaml` says
what it finds: the sample, which the clone has, and the other configurations in a folder that this module fills. Without
that folder `load_dataset` fails and names it; it never loads something else.

`datasets` knows rows that it has read before by their folder's name and metadata; it does not look at the files again.
So the metadata must change with the rows: `dataset_infos.json`, which it reads beside the YAML, has their digest.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_bench_dataset
from ml_bench_dataset import TRAINING_SPLITS
from ml_bench_hub.register_datasets import INFO, NAME, Entry

FOLDER = "build/made-by-ml-bench-register"
"""Where the rows lie in a clone. The name is in the error that `load_dataset` gives where it is missing."""

INFOS = "dataset_infos.json"
"""Where `datasets` looks for metadata, in the clone itself."""

_SHIPPED = "sample"


def find_clones(beside: Path) -> list[Path]:
    """Return the clones called `ml-bench`: the one in a folder, that folder, or the one that this package runs from."""
    own = Path(ml_bench_dataset.__file__).parent
    named = [folder for folder in (beside, own) if folder.name == NAME]
    found = {folder.resolve(): folder for folder in (beside / NAME, *named) if _is_clone(folder)}
    return list(found.values())


def _is_clone(folder: Path) -> bool:
    return (folder / ".huggingface.yaml").is_file() and (folder / "ml_bench_dataset.py").is_file()


def fill(clone: Path, entries: Mapping[str, Entry]) -> bool:
    """Write the rows of registered configurations into a clone, and return whether there was anything to do.

    The training splits are left out: `.huggingface.yaml` cannot say that a split may be missing.

    Raises:
        OSError: the clone cannot be written.
    """
    target, infos = clone / FOLDER, clone / INFOS
    files = {
        Path(name, f"{split}.jsonl"): (entry, split)
        for name, entry in entries.items()
        for split in _splits(entry)
        if name != _SHIPPED
    }
    text = json.dumps({name: _info(entry) for name, entry in entries.items()}, indent=1) + "\n"
    if (
        infos.is_file()
        and infos.read_text(encoding="utf-8") == text
        and all((target / file).is_file() for file in files)
    ):
        return False
    target.parent.mkdir(exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".ml-bench-register-", dir=target.parent))
    try:
        for file, (entry, split) in files.items():
            (draft / "new" / file).parent.mkdir(parents=True, exist_ok=True)
            _write_rows(entry, split, draft / "new" / file)
        (draft / INFOS).write_text(text, encoding="utf-8")
        # The old metadata must not be seen with the new rows.
        infos.unlink(missing_ok=True)
        if target.exists():
            target.rename(draft / "old")
        (draft / "new").rename(target)
        (draft / INFOS).rename(infos)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return True


def _splits(entry: Entry) -> dict[str, int]:
    return {split: rows for split, rows in entry.registration.rows.items() if split not in TRAINING_SPLITS}


def _info(entry: Entry) -> dict[str, Any]:
    prepared = json.loads((entry.folder / INFO).read_text(encoding="utf-8"))
    splits = {split: {"name": split, "num_bytes": 0, "num_examples": rows} for split, rows in _splits(entry).items()}
    description = f"rows {entry.registration.fingerprint}"
    return {"description": description, "features": prepared["features"], "splits": splits}


def _write_rows(entry: Entry, split: str, path: Path) -> None:
    import pyarrow as pa

    with path.open("w", encoding="utf-8") as lines:
        for part in sorted(name for name in entry.registration.files if _holds(name, split)):
            with (entry.folder / part).open("rb") as source:
                for row in pa.ipc.open_stream(source).read_all().to_pylist():
                    lines.write(json.dumps(row) + "\n")


def _holds(file: str, split: str) -> bool:
    return file == f"{NAME}-{split}.arrow" or (file.startswith(f"{NAME}-{split}-") and file.endswith(".arrow"))


def empty(clone: Path) -> bool:
    """Remove what `fill` wrote, and return whether there was anything.

    Raises:
        OSError: it cannot be removed.
    """
    target, infos = clone / FOLDER, clone / INFOS
    if not target.is_dir() and not infos.is_file():
        return False
    infos.unlink(missing_ok=True)
    if target.is_dir():
        shutil.rmtree(target)
        if not any(target.parent.iterdir()):
            target.parent.rmdir()
    return True
