"""ML-Bench as a data set: columns, repositories, reading and checking of rows, and the builder for `datasets`.

Reading (`read_split`, `complete_row`, `parse_arguments`) is plain Python and loads pyarrow or huggingface_hub only when
a source needs them. `MLBench` and `MLBenchConfig`, the classes for `datasets`, are made when they are first asked for,
so that importing this module stays cheap. The module is one file because `datasets` up to 3.6 copies it alone into
its own module cache and runs it there as a loading script.
"""

from __future__ import annotations

import ast
import hashlib
import json
import logging
import math
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import datasets

    MLBench: type[datasets.GeneratorBasedBuilder]
    MLBenchConfig: type[datasets.BuilderConfig]

UPSTREAM = "super-dainiu/ml-bench"
"""Hub id of the published data set, the source of the rows unless another one is named."""

UPSTREAM_COLUMNS: dict[str, str] = {
    "github_id": "int64",
    "github": "string",
    "repo_id": "int64",
    "path": "string",
    "arguments": "string",
    "instruction": "string",
    "oracle": "string",
    "type": "string",
    "id": "int64",
    "prefix_code": "string",
    "output": "string",
}
"""The published columns in their order -> type, as `datasets` and Arrow name it."""

COLUMNS: dict[str, str] = {
    **UPSTREAM_COLUMNS,
    "task_id": "string",
    "repository": "string",
    "commit": "string",
    "domain": "string",
    "environment": "string",
}
"""All columns of a complete row: the published eleven, then the five that `complete_row` adds."""

TASK_TYPES = ("Bash Script", "Python Code")
"""The values of column `type`."""

TRAINING_SPLITS = ("id_train", "ood_train")
"""The optional splits. Their rows are no tasks to be scored, so a fault in one row is a warning, not an error."""

CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "default": ("L", "A"),
    "ML-Bench-L": ("full", "quarter", *TRAINING_SPLITS),
    "ML-Bench-A": ("quarter",),
    "repositories": ("test",),
    "sample": ("L", "A"),
}
"""Configuration -> its splits."""

_VERSION = "1.0.0"
_ALIASES = {"L": "full", "A": "quarter"}
_SAMPLE_FILES = {"L": "tasks_l.jsonl", "A": "tasks_a.jsonl"}
_SUFFIXES = (".parquet", ".jsonl", ".json")
_SHOWN_FAULTS = 5
_WAY_OUT = "name a source with --source or ML_BENCH_SOURCE: a folder, a parquet or JSONL file, a Hub id, or sample"

_log = logging.getLogger(__name__)


class DataError(ValueError):
    """The data, or the place it should come from, is at fault; the message says what, where, and the way out."""


class _SplitNotFoundError(DataError):
    """The source is there, the split is not."""


# ---------------------------------------------------------------- repositories


@dataclass(frozen=True)
class Repository:
    """One of the benchmark's repositories. What nobody has published is None."""

    github_id: int | None
    name: str
    """The last part of the URL, in the case shown there; a word of the paper where no URL is published."""
    url: str | None
    commit: str | None
    """Full hash of the commit that the tasks were written for."""
    domain: str | None
    environment: str | None
    """Name of the conda environment in upstream's image."""
    directory: str | None
    """Name of the checkout's folder."""
    image: str | None
    """Upstream's image that holds the environment."""
    licence: str | None
    """SPDX identifier; None where the licence is not a listed one or differs between versions of the repository."""
    tasks: Mapping[str, int | None] = field(hash=False)
    """Published split -> number of rows."""


_IMAGE = "public.ecr.aws/i5g0m1f6/ml-bench"
# github_id, repository on GitHub, domain, environment, licence, rows of full, rows of quarter, commit
# fmt: off
_PUBLISHED: tuple[tuple[int, str, str, str, str | None, int, int, str], ...] = (
    (1, "dmlc/dgl", "graph", "dgl_DS", "Apache-2.0", 21, 5,
     "f5c8c0b500db810210d22add9b7d6fc809edc0d2"),
    (2, "google-research/bert", "language", "bert_DS", "Apache-2.0", 22, 6,
     "eedf5716ce1268e56f0a50264a88cafad334ac61"),
    (3, "salesforce/lavis", "multi-modal", "lavis_DS", "BSD-3-Clause", 27, 7,
     "7f00a0891b2890843f61c002a8e9532a40343648"),
    (4, "deep-floyd/if", "multi-modal", "if_DS", None, 21, 6,
     "ffc8163891682beaca0c5eb6b9077860a3bc6509"),
    (5, "NVIDIA/vid2vid", "multi-modal", "V2V_DS", None, 13, 4,
     "2e6d13755fc2e33200e7d4c0c44f2692d6ab0898"),
    (6, "facebookresearch/esm", "biomedical", "esm_DS", "MIT", 17, 5,
     "2b369911bb5b4b0dda914521b9475cad1656b2ac"),
    (7, "mlfoundations/open_clip", "multi-modal", "OP_DS", "MIT", 11, 3,
     "91923dfc376afb9d44577a0c9bd0930389349438"),
    (8, "thuml/Time-Series-Library", "time series", "TSL_DS", "MIT", 14, 4,
     "51e80b6f76b7823fea2512d6d170b1b83b149d2d"),
    (9, "xmu-xiaoma666/External-Attention-pytorch", "vision", "EAP_DS", "MIT", 24, 5,
     "90e774ed4a2a734fe91dde6a4a737de0f0c54122"),
    (10, "eriklindernoren/PyTorch-GAN", "vision", "PG_DS", "MIT", 30, 8,
     "36d3c77e5ff20ebe0aeefd322326a134a279b93e"),
    (11, "huggingface/pytorch-image-models", "vision", "PIM_DS", "Apache-2.0", 5, 1,
     "205d8ad37c838c20c541b787dca840edd9ed1408"),
    (13, "vinits5/learning3d", "vision", "L3_DS", "MIT", 17, 4,
     "becc4a0017488390d3f04e4bc2ce9efb368115c5"),
    (14, "microsoft/muzic", "audio", "MZ2_DS", "MIT", 18, 5,
     "9d52ff30b209a19fe51606242797c51a1bf7d7c1"),
    (15, "IDEA-Research/Grounded-Segment-Anything", "multi-modal", "GSA2_DS", "Apache-2.0", 20, 5,
     "d1c510118c0fdffb87bab3cd3dfe3e6b02a36f8b"),
)
# fmt: on
# Four repositories occur in the training splits only; nothing but name and domain is published.
_TRAINING_ONLY = (
    ("Stable Diffusion", "multi-modal"),
    ("DAGNN", "graph"),
    ("Medical Zoo", "biomedical"),
    ("Tensor2Tensor", "language"),
)


def _name_in(url: str) -> str:
    return url.strip().rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")


def _list_repositories() -> Iterator[Repository]:
    for github_id, path, domain, environment, licence, full, quarter, commit in _PUBLISHED:
        url, name = f"https://github.com/{path}", _name_in(path)
        tasks = {"full": full, "quarter": quarter, "id_train": None, "ood_train": None}
        yield Repository(github_id, name, url, commit, domain, environment, name, _IMAGE, licence, tasks)
    for name, domain in _TRAINING_ONLY:
        tasks = {"full": 0, "quarter": 0, "id_train": None, "ood_train": None}
        yield Repository(None, name, None, None, domain, None, None, None, None, tasks)


REPOSITORIES: tuple[Repository, ...] = tuple(_list_repositories())
"""The 18 repositories of the paper: the 14 with tasks, then the four of the training splits."""


def _address(url: str) -> str:
    return url.strip().rstrip("/").removesuffix(".git").lower()


_BY_KEY = {(item.github_id, _address(item.url)): item for item in REPOSITORIES if item.url is not None}


def repository_of(github_id: int, url: str) -> Repository | None:
    """Return the known repository with this id and URL, or None; case and a trailing `/` or `.git` do not matter."""
    return _BY_KEY.get((github_id, _address(url)))


# ---------------------------------------------------------------- rows


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def parse_arguments(value: object) -> dict[str, object]:
    """Return what column `arguments` asks for: free-text name -> str, int or float.

    Args:
        value: a Python dict literal as published, or the dict itself as in old files.

    Other values (True, None, lists, infinities) are refused: none of the published tasks has one, and what a
    candidate would have to contain for them is undefined.

    Raises:
        DataError: no dict literal, a name that is no text or occurs twice, or a value of another type.
    """
    parsed = value
    if isinstance(value, str):
        try:
            node = ast.parse(value.strip(), mode="eval").body
            parsed = ast.literal_eval(node)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            raise DataError(f"{_shown(value)} is not a Python dict literal such as \"{{'epochs': 5}}\"") from error
        if isinstance(node, ast.Dict) and isinstance(parsed, dict) and len(node.keys) != len(parsed):
            raise DataError(f"{_shown(value)} has the same name twice")
    if not isinstance(parsed, Mapping):
        raise DataError(f"{_shown(value)} is {type(parsed).__name__}, not a dict")
    for name, item in parsed.items():
        if not isinstance(name, str):
            raise DataError(f"the name {_shown(name)} is {type(name).__name__}, not a text")
        if isinstance(item, bool) or not isinstance(item, (str, int, float)):
            raise DataError(f"the value of {_shown(name)} is {type(item).__name__}; it must be a text or a number")
        if isinstance(item, float) and not math.isfinite(item):
            raise DataError(f"the value of {_shown(name)} is {item}, not a finite number")
    return dict(parsed)


def complete_row(row: Mapping[str, object]) -> dict[str, object]:
    """Return the row with all sixteen columns, in the order of `COLUMNS`; other keys are left out.

    The eleven published values are kept as they are, but `arguments` given as a dict becomes its literal. The five
    others follow from `REPOSITORIES`; for a repository that is not listed there they are taken from the row, else
    `repository` is the last part of the URL and the rest is None.

    Raises:
        DataError: a column is missing, has a wrong type or value, or contradicts what is known of the repository; all
            faults of the row are named.
    """
    broken, doubtful = _faults(row)
    if broken or doubtful:
        raise DataError(f"row with {_key_text(row)}: " + "; ".join(broken + doubtful))
    return _completed(row)


def _key_text(row: Mapping[str, object]) -> str:
    return f"github_id {_shown(row.get('github_id'))}, id {_shown(row.get('id'))}"


def _faults(row: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Return (what makes the row unusable, what makes its content doubtful), each starting with the column."""
    broken = [text for column in COLUMNS if (text := _type_fault(row, column))]
    if broken:
        return broken, []
    derived = _derived(row)
    for column, value in derived.items():
        given = row.get(column)
        if given is not None and given != value and not (column == "task_id" and _is_repeat(given, value)):
            broken.append(
                f"column {column}: is {_shown(given)}, but {_shown(value)} follows from the row's repository and id"
            )
    doubtful = [f"column {column}: is null" for column in UPSTREAM_COLUMNS if row[column] is None]
    if row["arguments"] is not None:
        try:
            parse_arguments(row["arguments"])
        except DataError as error:
            doubtful.append(f"column arguments: {error}")
    if row["type"] is not None and row["type"] not in TASK_TYPES:
        doubtful.append(f"column type: is {_shown(row['type'])}; it must be one of {', '.join(map(repr, TASK_TYPES))}")
    if not re.fullmatch(r"\w[\w.+ -]*", derived["repository"] or ""):
        doubtful.append(f"column github: {_shown(row['github'])} does not end in the name of a repository")
    return broken, doubtful


def _type_fault(row: Mapping[str, object], column: str) -> str | None:
    if column not in row:
        return f"column {column}: is missing" if column in UPSTREAM_COLUMNS else None
    value = row[column]
    if COLUMNS[column] == "int64":
        if isinstance(value, bool) or not isinstance(value, Integral):  # NumPy's integers are no int
            return f"column {column}: {_shown(value)} is {type(value).__name__}, not an integer"
        return None if -(2**63) <= int(value) < 2**63 else f"column {column}: {value} does not fit into 64 bits"
    if column == "arguments" and isinstance(value, Mapping):
        value = repr(value)
    if value is not None and not isinstance(value, str):
        return f"column {column}: {_shown(value)} is {type(value).__name__}, not a text"
    try:
        (value or "").encode()
    except UnicodeEncodeError as error:
        return f"column {column}: is not valid Unicode (lone surrogate at character {error.start})"
    return None


def _derived(row: Mapping[str, Any]) -> dict[str, str | None]:
    url = row["github"] or ""
    known = repository_of(row["github_id"], url)
    if known is None:
        repository = row.get("repository") or _name_in(url) or None
        commit, domain, environment = (row.get(column) for column in ("commit", "domain", "environment"))
    else:
        repository, commit, domain, environment = known.name, known.commit, known.domain, known.environment
    return {
        "task_id": f"{repository or row['github_id']}/{row['id']}",
        "repository": repository,
        "commit": commit,
        "domain": domain,
        "environment": environment,
    }


def _is_repeat(task_id: object, base: str | None) -> bool:
    # A training row whose key is not unique carries the mark that `read_split` gave it.
    return isinstance(task_id, str) and re.fullmatch(re.escape(f"{base}#") + r"\d+", task_id) is not None


def _completed(row: Mapping[str, Any]) -> dict[str, object]:
    values = {column: int(row[column]) if kind == "int64" else row[column] for column, kind in UPSTREAM_COLUMNS.items()}
    if isinstance(values["arguments"], Mapping):
        values["arguments"] = repr(dict(values["arguments"]))
    return {**values, **_derived(row), "task_id": row.get("task_id") or _derived(row)["task_id"]}


# ---------------------------------------------------------------- sources


@dataclass(frozen=True)
class _Found:
    """A split that was found: the files that hold it, in order."""

    split: str
    files: tuple[Traversable, ...]
    origin: str
    claims_upstream: bool
    """The source is laid out like upstream's, so that its content can be held against the published one."""


@dataclass(frozen=True)
class _Place:
    """A source: where splits are looked for."""

    kind: Literal["sample", "file", "folder", "hub"]
    name: str
    """`sample`, an absolute path, or a Hub id."""
    revision: str | None = None

    def find(self, split: str) -> _Found:
        """Return where the split is; a Hub repository's files are downloaded or taken from the Hub's cache.

        Raises:
            _SplitNotFoundError: the source has no such split.
            DataError: the files of the split are ambiguous or incomplete, or the Hub cannot give them.
        """
        if not re.fullmatch(r"\w+(\.\w+)*", split):
            raise DataError(f"{split!r} is no name of a split: only letters, digits, _ and single dots may be in it")
        if self.kind == "sample":
            return _find_in_sample(split)
        path = Path(self.name)
        if self.kind == "file":
            return _find_in_file(path, split)
        origin = self.name
        if self.kind == "hub":
            path = _hub_snapshot(self.name, self.revision, _names_of(split))
            origin = f"{self.name}@{path.name}"
        found = _find_in_folder(path, split, origin)
        if found is None:
            there = _hub_files(self.name, path.name) if self.kind == "hub" else _data_files(path)
            raise _SplitNotFoundError(
                f"{origin}: no split {split!r}: no file data/{_names_of(split)[-1]}-*.parquet or the like; "
                f"data files found: {', '.join(there) or 'none'}"
            )
        return found

    def splits(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Return the splits to look for: a file holds only one, which its name may tell."""
        if self.kind != "file":
            return wanted
        told = _split_told(Path(self.name).name)
        return tuple(split for split in wanted if told in _names_of(split))[:1] or wanted[:1]

    def pinned(self, split: str) -> _Place:
        """Return the place at the commit that its revision means now; this downloads the files of a split.

        Asking the Hub for the commit alone would leave no trace in its cache, which then could not answer offline.

        Raises:
            DataError: neither the Hub nor its cache can tell.
        """
        if self.kind != "hub":
            return self
        return _Place("hub", self.name, _hub_snapshot(self.name, self.revision, _names_of(split)).name)


def _locate(source: str | None, revision: str | None) -> _Place:
    text = os.fspath(source) if source is not None else os.environ.get("ML_BENCH_SOURCE", "").strip() or UPSTREAM
    if not text.strip():
        raise DataError(f"the source is an empty text; {_WAY_OUT}")
    try:
        path = Path(text).expanduser()
        exists = path.exists()
    except (OSError, ValueError, RuntimeError) as error:  # Unreadable, impossible in a path, no such home directory.
        raise DataError(f"source {_shown(text)}: {error}; {_WAY_OUT}") from error
    hub = re.fullmatch(r"(?P<id>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>[^\s@]+))?", text)
    if text == "sample" or exists:
        if revision is not None:
            raise DataError(f"source {text!r} is not on the Hub, so it has no revision {revision!r}; leave one out")
        if text == "sample":
            return _Place("sample", "sample")
        if path.is_dir():
            return _Place("folder", str(path.resolve()))
        if path.suffix not in _SUFFIXES:
            raise DataError(f"source {text!r} must end in one of {', '.join(_SUFFIXES)}")
        return _Place("file", str(path.resolve()))
    if hub is None or path.suffix in _SUFFIXES:
        raise DataError(
            f"source {text!r} is neither a folder nor a file here, nor a Hub id (namespace/name); {_WAY_OUT}"
        )
    if revision is not None and hub["revision"] not in (None, revision):
        raise DataError(f"source {text!r} and revision {revision!r} contradict each other; leave one out")
    return _Place("hub", hub["id"], revision or hub["revision"])


def _names_of(split: str) -> tuple[str, ...]:
    return (split, _ALIASES[split]) if split in _ALIASES else (split,)


def _split_told(file_name: str) -> str | None:
    """Return the published split that a file's name starts with, if it does."""
    match = re.match(r"(full|quarter|id_train|ood_train|L|A)(?=[-.])", file_name)
    return match and _ALIASES.get(match[0], match[0])


def _find_in_sample(split: str) -> _Found:
    if split not in _SAMPLE_FILES:
        raise _SplitNotFoundError(f"the sample has no split {split!r}; it has {', '.join(_SAMPLE_FILES)}")
    try:
        file = resources.files("ml_bench_sample") / _SAMPLE_FILES[split]
    except ModuleNotFoundError as error:
        raise DataError(
            "the sample needs the package ml_bench_sample; install it with: pip install ml-bench"
        ) from error
    return _Found(split, (file,), "sample", claims_upstream=False)


def _find_in_file(path: Path, split: str) -> _Found:
    told = _split_told(path.name)
    if told is not None and told not in _names_of(split):
        raise _SplitNotFoundError(
            f"{path}: by its name this file holds split {told!r}, not {split!r}; ask for {told!r} or rename the file"
        )
    _check_parts([path], str(path.parent))
    return _Found(split, (path,), str(path), claims_upstream=False)


def _find_in_folder(folder: Path, split: str, origin: str) -> _Found | None:
    for name in _names_of(split):
        groups: dict[str, list[Path]] = {}
        for parent in (folder / "data", folder):
            for path in sorted(parent.glob(f"{name}[-.]*")):
                if path.name in (f"{name}.parquet", f"{name}.jsonl", f"{name}.json"):
                    groups[str(path)] = [path]
                elif path.name.startswith(f"{name}-") and path.suffix == ".parquet":
                    groups.setdefault(str(parent / f"{name}-*.parquet"), []).append(path)
        if len(groups) > 1:
            raise DataError(f"{origin}: split {name!r} is there more than once: {', '.join(groups)}; keep one of them")
        for files in groups.values():
            _check_parts(files, origin)
            return _Found(name, tuple(files), origin, claims_upstream=True)
    return None


def _data_files(folder: Path) -> list[str]:
    paths = [path for parent in (folder / "data", folder) for path in sorted(parent.glob("*"))]
    return [path.relative_to(folder).as_posix() for path in paths if path.suffix in _SUFFIXES]


def _check_parts(files: list[Path], origin: str) -> None:
    numbers = [re.search(r"-(\d+)-of-(\d+)(?:-\w+)?\.parquet$", path.name) for path in files]
    if not any(numbers):
        return
    parts = [(int(number[1]), int(number[2])) for number in numbers if number]
    if parts != [(index, len(files)) for index in range(len(files))]:
        names = ", ".join(path.name for path in files)
        raise DataError(
            f"{origin}: not all parts of one split, and nothing else: {names}; complete them and give their folder"
        )


def _hub_snapshot(repo: str, revision: str | None, names: Iterable[str]) -> Path:
    """Return the folder `…/snapshots/<commit>` of the Hub's cache, with the files of one split in it."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    patterns = [f"{folder}{name}{end}" for folder in ("data/", "") for name in names for end in ("-*", *_SUFFIXES)]
    try:
        return Path(snapshot_download(repo, repo_type="dataset", revision=revision, allow_patterns=patterns))
    except RevisionNotFoundError as error:
        raise DataError(f"data set {repo!r} on the Hub has no revision {revision!r}") from error
    except RepositoryNotFoundError as error:
        reason = "there is no such data set on the Hub, or it needs a login (`hf auth login`), and no such folder here"
        raise DataError(f"source {repo!r}: {reason}; {_WAY_OUT}") from error
    except Exception as error:  # The HTTP libraries below the client, and so their errors, differ between its versions.
        reason = f"the Hub cannot be read and its cache has not got it ({type(error).__name__}: {error})"
        raise DataError(f"source {repo!r}, revision {revision or 'main'}: {reason}; {_WAY_OUT}") from error


def _hub_files(repo: str, commit: str) -> list[str]:
    from huggingface_hub import HfApi

    try:
        files = HfApi().dataset_info(repo, revision=commit, timeout=10).siblings or []
    except Exception as error:  # As above. What the cache lacks may well be on the Hub, so it is not called absent.
        reason = f"the Hub's cache has not got it and the Hub cannot be asked ({type(error).__name__}: {error})"
        raise DataError(f"{repo}@{commit}: {reason}; {_WAY_OUT}") from error
    return [file.rfilename for file in files if file.rfilename.endswith(_SUFFIXES)]


# ---------------------------------------------------------------- reading


@dataclass(frozen=True)
class Split:
    """The rows of a split, complete and checked."""

    rows: list[dict[str, object]]
    """In the source's order, each with the columns `COLUMNS`; `task_id` is unique."""
    split: str
    """The name that the source has for it: `full` where `L` was asked for."""
    origin: str
    """`sample`, the absolute path of the folder or file, or `<namespace>/<name>@<commit>`."""
    digest: str
    """SHA-256 (hex) over all values of all rows in order; the storage format does not matter."""
    warnings: tuple[str, ...]
    """One line for each thing that is not as published."""


def read_split(source: str | None, split: str, *, revision: str | None = None) -> Split:
    """Return the rows of a split, complete and checked.

    Args:
        source: `sample`; a folder with `data/<split>-*.parquet` like upstream's, or with `<split>-*.parquet`,
            `<split>.parquet`, `<split>.jsonl`, `<split>.json`; one such file, which then is the split asked for unless
            its name tells another one; or a Hub id `namespace/name`, also `namespace/name@revision`. A folder or file
            that exists goes before a Hub id. None takes the environment variable `ML_BENCH_SOURCE`, else `UPSTREAM`.
        split: `full`, `quarter`, `id_train`, `ood_train`, or any name that the source has. `L` and `A` stand for
            `full` and `quarter` where the source has no such split itself; the sample has `L` and `A`.
        revision: branch, tag or commit of the Hub repository.

    In `TRAINING_SPLITS` a row with a null text, unreadable `arguments`, an unknown `type` or a key that is not unique
    is kept and reported in `warnings`; the repeated key's `task_id` gets a suffix, `#2` and so on.

    Raises:
        DataError: the source or split does not exist or cannot be read, or rows are faulty; the message names file,
            row (counted from 0), key and column of the first faults.
    """
    return _read(_locate(source, revision).find(split))


def _read(found: _Found) -> Split:
    rows: list[dict[str, object]] = []
    broken: list[str] = []
    doubtful: list[str] = []
    repeated: list[str] = []
    extra: set[str] = set()
    keys: dict[object, str] = {}
    task_ids: set[str] = set()
    for file in found.files:
        for where, raw in _raw_rows(file):
            place = f"{file.name}, {where} ({_key_text(raw)})"
            extra.update(raw.keys() - COLUMNS.keys())
            unusable, unsure = _faults(raw)
            broken += [f"{place}, {fault}" for fault in unusable]
            doubtful += [f"{place}, {fault}" for fault in unsure]
            if unusable:
                continue
            row = _completed(raw)
            base = task_id = str(row["task_id"])
            count = 1
            while task_id in task_ids:
                count += 1
                task_id = f"{base}#{count}"
            key = (row["github_id"], row["id"])
            if key in keys or count > 1:
                earlier = f" of {keys[key]}" if key in keys else f" of another row with task_id {base}"
                repeated.append(f"{place}, columns github_id and id: repeat those{earlier}")
            keys.setdefault(key, f"{file.name}, {where}")
            task_ids.add(task_id)
            rows.append({**row, "task_id": task_id})
    warnings = []
    if found.split in TRAINING_SPLITS:
        if doubtful:
            warnings.append(f"rows with faults, kept as they are: {_some(doubtful, '; ')}")
        if repeated:
            warnings.append(f"keys that are not unique, task_id has a suffix there: {_some(repeated, '; ')}")
    else:
        broken += doubtful + repeated
    if broken:
        raise DataError(f"{found.origin}: faults in split {found.split!r}:\n  " + _some(broken, "\n  "))
    if not rows:
        raise DataError(f"{found.origin}: split {found.split!r} has no rows")
    if extra:
        warnings.append(f"columns that ML-Bench does not have are left out: {', '.join(sorted(map(str, extra)))}")
    digest = _digest(rows)
    if found.claims_upstream:
        warnings += _changes(found.split, rows, digest)
    prefix = f"{found.origin}, split {found.split}: "
    return Split(rows, found.split, found.origin, digest, tuple(prefix + text for text in warnings))


def _some(faults: list[str], separator: str) -> str:
    more = len(faults) - _SHOWN_FAULTS
    return separator.join(faults[:_SHOWN_FAULTS] + ([f"and {more} more"] if more > 0 else []))


def _bytes_of(file: Traversable) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error}") from error


def _raw_rows(file: Traversable) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (`row <number>`, row) of a parquet, JSONL or JSON file; values are not checked yet."""
    data = _bytes_of(file)
    if file.name.endswith(".parquet"):
        yield from _parquet_rows(file, data)
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 (byte {error.start})") from error
    index = 0
    if text.lstrip().startswith("["):
        for index, item in enumerate(_json(file, "", text)):
            yield f"row {index}", _json_object(file, f"row {index}", item)
        return
    # str.splitlines would also cut at separators that may stand inside a JSON text.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"row {index} (line {number})"
            yield where, _json_object(file, where, _json(file, where, line))
            index += 1


def _json(file: Traversable, where: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        form = "a JSON array of rows" if not where else "a JSON object in one line"
        raise DataError(f"{file}{where and ', ' + where}: not {form}: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = Counter(name for name, _ in pairs)
    if len(names) < len(pairs):
        raise ValueError(f"the name {names.most_common(1)[0][0]!r} occurs twice")
    return dict(pairs)


def _json_object(file: Traversable, where: str, item: object) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise DataError(f"{file}, {where}: is {type(item).__name__}, not a JSON object")
    return item


def _parquet_rows(file: Traversable, data: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file}: is not a readable parquet file: {error}") from error
    faults = []
    for column, kind in COLUMNS.items():
        if table.column_names.count(column) != 1:
            if column in table.column_names:
                faults.append(f"column {column}: is there more than once")
            elif column in UPSTREAM_COLUMNS:
                faults.append(f"column {column}: is missing")
            continue
        found = table.schema.field(column).type
        if pa.types.is_dictionary(found):
            found = found.value_type
        fits = (
            pa.types.is_integer(found) if kind == "int64" else str(found) in ("string", "large_string", "string_view")
        )
        if not (fits or (pa.types.is_null(found) and column not in UPSTREAM_COLUMNS)):
            faults.append(f"column {column}: has type {found}, not {kind}")
    if faults:
        raise DataError(f"{file}: {'; '.join(faults)} (columns found: {', '.join(table.column_names)})")
    index = 0
    try:
        for batch in table.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                yield f"row {index}", row
                index += 1
    except UnicodeDecodeError as error:
        raise DataError(f"{file}, row {index} or a later one: a text is not UTF-8: {error}") from error


def _digest(rows: Iterable[Mapping[str, object]]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([row[column] for column in COLUMNS], separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()


KNOWN_DIGESTS = {
    "full": "589efe8f7d79652d834c554a6875ad6053a4efa06470ce61064c2bcb0b1c66c8",
    "quarter": "8cd93d42d10a769306edbea1fce9430dea9aa34eba1d88114b3cb414e9fb7964",
}
"""Split -> digest of its completed rows as they were published when this version was made."""

# Of the training splits only the number of rows is known.
_KNOWN_ROWS = {"id_train": 6551, "ood_train": 3564}


def _changes(split: str, rows: list[dict[str, object]], digest: str) -> list[str]:
    """Return, in one line or none, how the rows of a published split differ from those known."""
    if split in _KNOWN_ROWS and len(rows) != _KNOWN_ROWS[split]:
        return [f"not as published: {len(rows)} rows instead of {_KNOWN_ROWS[split]}"]
    if KNOWN_DIGESTS.get(split, digest) == digest:
        return []
    expected: dict[object, int] = {
        item.github_id: item.tasks[split] or 0 for item in REPOSITORIES if item.github_id is not None
    }
    counts = Counter(row["github_id"] for row in rows)
    differing = [
        f"github_id {github_id}: {counts[github_id]} rows instead of {expected.get(github_id, 0)}"
        for github_id in sorted({*expected, *counts}, key=str)
        if counts[github_id] != expected.get(github_id, 0)
    ]
    if differing:
        return ["not as published: " + _some(differing, "; ")]
    return [f"not as published: as many rows, but contents differ: digest {digest} instead of {KNOWN_DIGESTS[split]}"]


# ---------------------------------------------------------------- the builder for `datasets`


def _place_of(configuration: str, source: str | None, data_dir: str | None, revision: str | None) -> _Place | None:
    """Return where a configuration's rows come from; None for `repositories`, which this module holds."""
    if configuration == "repositories":
        return None
    if source is not None and data_dir is not None and source != data_dir:
        raise DataError(f"source {source!r} and data_dir {data_dir!r} both name a source; leave one out")
    source = data_dir if source is None else source
    if configuration == "sample":
        if source not in (None, "sample"):
            raise DataError(f"configuration 'sample' has no other source, but {source!r} was given; use 'default'")
        source = "sample"
    return _locate(source, revision).pinned(CONFIGURATIONS[configuration][0])


def _fingerprint(configuration: str, place: _Place | None) -> str:
    """Return a hash that changes with all that decides the rows of a configuration, changed files included."""
    digest = hashlib.sha256(repr((_VERSION, configuration, REPOSITORIES, place)).encode())
    if place is not None and place.kind != "hub":
        for split in place.splits(CONFIGURATIONS[configuration]):
            try:
                files = place.find(split).files
            except _SplitNotFoundError:
                continue
            for file in files:
                digest.update(repr((split, file.name)).encode() + hashlib.sha256(_bytes_of(file)).digest())
    return digest.hexdigest()


def _repository_rows() -> Iterator[dict[str, object]]:
    for item in REPOSITORIES:
        row = {column: value for column, value in vars(item).items() if column != "tasks"}
        yield {**row, **{f"tasks_{split}": count for split, count in item.tasks.items()}}


def _define_builder() -> None:
    """Make `MLBench` and `MLBenchConfig`, which need `datasets`.

    They are global classes of this module, not closures: `datasets` pickles them by name for its worker processes.
    """
    global MLBench, MLBenchConfig

    import datasets

    @dataclass(eq=False)
    class MLBenchConfig(datasets.BuilderConfig):  # type: ignore[misc]
        """A configuration of ML-Bench.

        Attributes:
            source: where the rows come from, as in `read_split`; `data_dir` says the same.
            revision: of the Hub repository. `load_dataset` has an argument of that name for itself, so write
                `source="namespace/name@revision"` there.
        """

        source: str | None = None
        revision: str | None = None

    class MLBench(datasets.GeneratorBasedBuilder):  # type: ignore[misc]
        """ML-Bench for `datasets`: `MLBench(config_name=…, source=…)`, then `download_and_prepare` or streaming.

        The configurations and their splits are `CONFIGURATIONS`. Prepared rows are kept in the cache of `datasets` and
        used again only while source, revision and the content of local files are the same; for that, making a builder
        asks the Hub for the commit of its source, or the Hub's cache when it is offline.

        Raises:
            DataError: no such configuration, or its source or a required split does not exist or is faulty.
        """

        VERSION = datasets.Version(_VERSION)
        BUILDER_CONFIG_CLASS = MLBenchConfig
        BUILDER_CONFIGS = [MLBenchConfig(name=name, version=datasets.Version(_VERSION)) for name in CONFIGURATIONS]  # noqa: RUF012
        DEFAULT_CONFIG_NAME = "default"

        def __init__(
            self,
            cache_dir: str | None = None,
            dataset_name: str | None = None,
            config_name: str | None = None,
            hash: str | None = None,
            data_dir: str | None = None,
            data_files: object = None,
            source: str | None = None,
            revision: str | None = None,
            **kwargs: Any,
        ) -> None:
            config_name = config_name or self.DEFAULT_CONFIG_NAME
            if config_name not in CONFIGURATIONS:
                raise DataError(f"no configuration {config_name!r}; there are {', '.join(CONFIGURATIONS)}")
            if data_files is not None:
                raise DataError("ML-Bench takes no data_files; give the folder or file as source or data_dir")
            self._place = _place_of(config_name, source, data_dir, revision)
            # The source decides the rows through the hash, which is the last level of the folder in the cache. As an
            # argument of the configuration it would rename the first level, and `datasets` finds prepared rows by
            # the configuration's name alone when it is offline.
            fingerprint = hashlib.sha256(f"{hash} {_fingerprint(config_name, self._place)}".encode()).hexdigest()
            super().__init__(cache_dir, dataset_name, config_name, fingerprint, **kwargs)
            self.config: Any = replace(self.config, source=source, data_dir=data_dir, revision=revision)

        def _info(self) -> Any:
            types = COLUMNS
            if self.config.name == "repositories":
                names = next(_repository_rows())
                types = {name: "int64" if name.startswith(("github_id", "tasks_")) else "string" for name in names}
            return datasets.DatasetInfo(
                description="Tasks on repositories of machine-learning code, to be solved by a command or a program.",
                features=datasets.Features({column: datasets.Value(kind) for column, kind in types.items()}),
                homepage="https://arxiv.org/abs/2311.09835",
                license="MIT",
            )

        def _split_generators(self, dl_manager: Any) -> list[Any]:
            place = self._place
            if place is None:
                return [datasets.SplitGenerator("test", gen_kwargs={"found": None})]
            generators = []
            for split in place.splits(CONFIGURATIONS[self.config.name]):
                try:
                    found = place.find(split)
                except _SplitNotFoundError as error:
                    if split not in TRAINING_SPLITS:
                        raise
                    _log.warning("split %s is left out: %s", split, error)
                    continue
                generators.append(datasets.SplitGenerator(split, gen_kwargs={"found": found}))
            return generators

        def _generate_examples(self, found: _Found | None) -> Iterator[tuple[int, dict[str, object]]]:
            if found is None:
                yield from enumerate(_repository_rows())
                return
            split = _read(found)
            for warning in split.warnings:
                _log.warning(warning)
            yield from enumerate(split.rows)


_defining = threading.Lock()

if not TYPE_CHECKING:  # With it, a type checker would take any name for an attribute of this module.

    def __getattr__(name: str) -> object:
        if name in ("MLBench", "MLBenchConfig"):
            with _defining:
                if name not in globals():
                    _define_builder()
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# As a loading script the module lies in this package of `datasets`, which looks for the builder among its contents.
if __name__.startswith("datasets_modules."):
    _define_builder()
