"""Which files of a repository are text that is worth showing, and reading them.

Left out are, wherever they lie:

- version control and tools: `.git`, `.hg`, `.svn`, caches of Python and notebooks, `*.egg-info`;
- what others wrote: folders such as `node_modules`, `third_party`, `vendor`, and lock files of package managers;
- links: what they lead to is in the repository under its own name, or not of the repository;
- binaries: files with a NUL (but for UTF-16 and UTF-32 with their mark), or with many control characters;
- data: suffixes of tables, sequences, geometry and images; files over 1 MiB; over 100,000 bytes those that may be text
  or data (JSON, XML, HTML, YAML, `.txt` and the like), but not READMEs; lines so long that only a program wrote them,
  as in minified scripts;
- files without any text.

Of a notebook the cells' sources are kept, and their outputs are not; it may be larger than 1 MiB, its sources may not.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from ml_bench_metric.printable import printable
from ml_bench_solvers.prompt_error import RepositoryError

RULES_VERSION = 1
"""To be raised when the same files have to give another text."""

LARGEST_BYTES = 1 << 20
LARGEST_DATA_BYTES = 100_000
LARGEST_NOTEBOOK_BYTES = 32 << 20
"""With its outputs, which are pictures for the most part."""

_LEFT_OUT_FOLDERS = {
    *(".git", ".hg", ".svn", "cvs", "__pycache__", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache"),
    *("node_modules", "bower_components", "third_party", "third-party", "thirdparty", "3rdparty", "vendor", "vendored"),
    *("site-packages", ".venv"),
}
_LEFT_OUT_NAMES = {
    *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "poetry.lock", "pipfile.lock"),
    *("uv.lock", "pdm.lock", "pixi.lock", "conda-lock.yml", "cargo.lock", "composer.lock", "gemfile.lock", "go.sum"),
    *(".git", ".ds_store"),
}
_LEFT_OUT_SUFFIXES = {
    *(".csv", ".tsv", ".jsonl", ".ndjson", ".arff", ".libsvm", ".conll"),
    *(".fasta", ".fa", ".faa", ".fna", ".fastq", ".a2m", ".a3m", ".sto", ".pdb", ".cif", ".mmcif", ".sdf", ".mol2"),
    *(".obj", ".mtl", ".ply", ".off", ".stl", ".pcd", ".xyz", ".bvh"),
    *(".svg", ".eps", ".ps", ".xpm", ".pbm", ".pgm", ".ppm", ".abc", ".musicxml", ".mxl"),
    *(".map", ".pyc", ".po", ".pot", ".srt", ".vtt", ".log"),
}
_TEXT_OR_DATA = {
    *("", ".json", ".xml", ".html", ".htm", ".yaml", ".yml", ".txt", ".lst", ".list", ".dict", ".vocab", ".dat"),
    *(".data", ".tab", ".index", ".names", ".labels", ".scp", ".ctm", ".bpe", ".model", ".prototxt", ".pbtxt"),
}
_NOTEBOOK = ".ipynb"
_MINIFIED = re.compile(r"[.-]min\.(js|mjs|css|html?)$", re.IGNORECASE)
_README = re.compile(
    r"readme(?P<more>(?:[._ -].*)?)\.(md|markdown|mdown|rst|txt|adoc|org|rdoc)|readme(?P<bare>(?:[_-]\w*)?)",
    re.IGNORECASE,
)
_MARKS = (
    *((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")),  # before UTF-16, whose mark begins the same
    *((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\v\b\x1b"))
_CONTROL_SHARE = 0.02
_LONG_LINE = 500
"""Characters of the average line from which on a file was written by a program …"""
_LONG_LINES_FROM = 5_000
"""… if it has so many in all."""

_Entry = tuple[str, int, Callable[[], bytes]]
"""Path in the repository, size in bytes, and what reads it."""


@dataclass(frozen=True)
class TextFile:
    """A text file of a repository."""

    path: str
    """In the repository, with `/`; characters that cannot be shown are escaped."""
    text: str
    """With line ends `\\n`, without empty lines around it; bytes that are not UTF-8 became U+FFFD."""


def is_readme(path: str) -> bool:
    """Return whether a file is a README, in any language and form."""
    return _README.fullmatch(path.rpartition("/")[2]) is not None


def read_folder(folder: Path) -> tuple[TextFile, ...]:
    """Return the text files of a folder: READMEs first, the upper ones before those below them, then by path.

    Raises:
        RepositoryError: a folder or file cannot be read; the message names it.
    """
    return _texts(_in_folder(folder))


def read_tar(file: IO[bytes]) -> tuple[TextFile, ...]:
    """Return the same of an archive of a folder, such as an engine gives.

    Raises:
        RepositoryError: the archive is damaged.
    """
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            return _texts(_in_tar(archive))
    except (tarfile.TarError, OSError) as error:
        raise RepositoryError(f"the archive of the repository's files cannot be read: {error}") from error


def _in_folder(top: Path) -> Iterator[_Entry]:
    folders = [("", os.fspath(top))]
    while folders:
        prefix, folder = folders.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not _is_left_out_folder(entry.name):
                        folders.append((f"{prefix}{entry.name}/", entry.path))
                    continue
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode):
                    yield prefix + entry.name, facts.st_size, Path(entry.path).read_bytes
        except OSError as error:
            raise RepositoryError(f"{printable(folder)} cannot be read: {error.strerror or error}") from error


def _in_tar(archive: tarfile.TarFile) -> Iterator[_Entry]:
    for member in archive:
        # The first part is the folder's own name.
        parts = PurePosixPath(member.name).parts[1:]
        if member.isreg() and parts and not any(_is_left_out_folder(part) for part in parts[:-1]):
            content = archive.extractfile(member)
            if content is not None:
                yield "/".join(parts), member.size, content.read


def _is_left_out_folder(name: str) -> bool:
    return name.lower() in _LEFT_OUT_FOLDERS or name.lower().endswith(".egg-info")


def _texts(entries: Iterable[_Entry]) -> tuple[TextFile, ...]:
    found = []
    for path, size, read in entries:
        if _may_be_text(path, size):
            try:
                data = read()
            except OSError as error:
                raise RepositoryError(f"{printable(path)} cannot be read: {error.strerror or error}") from error
            text = _text_of(path, data)
            if text is not None and text.strip():
                found.append((_order(path), TextFile(printable(path), text.rstrip().lstrip("\n"))))
    return tuple(file for _, file in sorted(found, key=lambda item: item[0]))


def _order(path: str) -> tuple[bool, int, bool, bytes]:
    raw = path.encode("utf-8", "surrogateescape")
    name = _README.fullmatch(path.rpartition("/")[2])
    if name is None:
        return True, 0, False, raw
    # README.md goes before README_zh.md, and the one of the whole repository before those of its parts.
    return False, path.count("/"), bool(name["more"] or name["bare"]), raw


def _may_be_text(path: str, size: int) -> bool:
    name = path.rpartition("/")[2].lower()
    suffix = PurePosixPath(name).suffix
    largest = LARGEST_NOTEBOOK_BYTES if suffix == _NOTEBOOK else LARGEST_BYTES
    if not 0 < size <= largest or name in _LEFT_OUT_NAMES or suffix in _LEFT_OUT_SUFFIXES:
        return False
    if is_readme(path):
        return True
    return not _MINIFIED.search(name) and (size <= LARGEST_DATA_BYTES or suffix not in _TEXT_OR_DATA)


def _text_of(path: str, data: bytes) -> str | None:
    """Return a file's text; None where it has none."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    if encoding is None:
        if b"\0" in data or len(data) - len(data.translate(None, _CONTROLS)) > _CONTROL_SHARE * len(data):
            return None
        encoding = "utf-8-sig"
    text = data.decode(encoding, "replace").replace("\0", "\ufffd").replace("\r\n", "\n").replace("\r", "\n")
    if path.lower().endswith(_NOTEBOOK):
        text = _cells(text)
        return text if len(text.encode()) <= LARGEST_BYTES else None
    if not is_readme(path) and len(text) > _LONG_LINES_FROM and len(text) > _LONG_LINE * (text.count("\n") + 1):
        return None
    return text


def _cells(notebook: str) -> str:
    """Return the sources of a notebook's cells; nothing for what is no notebook, which is data then."""
    try:
        cells = json.loads(notebook)["cells"]
        sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    # A lone surrogate, which JSON's escapes can write, is no text.
    joined = "\n\n".join(f"# [{kind}]\n{source}" for kind, source in sources if source.strip())
    return joined.encode("utf-8", "replace").decode("utf-8")
