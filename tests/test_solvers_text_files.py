"""What is shown of a repository is its own text, in a stable order, whatever lies in its folders."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from ml_bench_solvers.prompt_error import RepositoryError
from ml_bench_solvers.text_files import LARGEST_BYTES, LARGEST_DATA_BYTES, read_folder, read_tar


def put(folder: Path, **files: str | bytes) -> None:
    """Write files; in their names `__` stands for `/`."""
    for name, content in files.items():
        write(folder, name.replace("__", "/"), content)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def paths(folder: Path) -> list[str]:
    return [file.path for file in read_folder(folder)]


def text(folder: Path) -> str:
    (file,) = read_folder(folder)
    return file.text


def test_readmes_come_first_the_upper_ones_before_the_lower_and_english_before_others(tmp_path: Path) -> None:
    for name in ("a.py", "docs/README.md", "README_zh.md", "README.md", "B.py", "a/README.rst", "docs/b/readme.txt"):
        write(tmp_path, name, "x")
    write(tmp_path, "readme.py", "x = 1")
    assert paths(tmp_path) == [
        *("README.md", "README_zh.md", "a/README.rst", "docs/README.md", "docs/b/readme.txt"),
        *("B.py", "a.py", "readme.py"),
    ]


def test_the_order_does_not_depend_on_the_order_of_creation(tmp_path: Path) -> None:
    names = ["b.py", "a/c.py", "a.py", "README.md", "z/README.md"]
    for number, order in enumerate((names, names[::-1])):
        for name in order:
            write(tmp_path / str(number), name, name)
    assert read_folder(tmp_path / "0") == read_folder(tmp_path / "1")


@pytest.mark.parametrize(
    "name",
    [
        *(".git/config", "sub/.git/config", "node_modules/a/index.js", "lib/third_party/x.py", "Vendor/x.c"),
        *("a.egg-info/PKG-INFO", "package-lock.json", "sub/poetry.lock", "go.sum", "jquery.min.js", "points.csv"),
        *("mesh.obj", "protein.fasta", "drawing.svg", "__pycache__/a.py"),
    ],
)
def test_version_control_data_and_what_others_wrote_is_left_out(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, "some text")
    put(tmp_path, own__py="x")
    assert paths(tmp_path) == ["own/py"]


@pytest.mark.parametrize("content", [b"\x7fELF\0\0", b"text\0more", bytes(range(1, 32)) * 20, b"", b" \n\t\n"])
def test_binaries_and_files_without_text_are_left_out(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, "thing", content)
    assert paths(tmp_path) == []


def test_an_empty_repository_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "folder" / "in").mkdir(parents=True)
    assert read_folder(tmp_path) == ()


def test_large_files_are_data_but_a_readme_up_to_a_mebibyte_is_not(tmp_path: Path) -> None:
    line = "some words in a line\n"
    long = line * (LARGEST_DATA_BYTES // len(line) + 1)
    for name in ("words.txt", "config.json", "README.txt", "program.py"):
        write(tmp_path, name, long)
    write(tmp_path, "huge.py", line * (LARGEST_BYTES // len(line) + 1))
    assert paths(tmp_path) == ["README.txt", "program.py"]


def test_a_huge_file_is_not_even_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse.py").open("wb") as file:
        file.truncate(1 << 40)
    assert paths(tmp_path) == []


def test_what_a_program_wrote_in_endless_lines_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, generated__js="a=1;" * 3000, own__js="a = 1;\n" * 3000)
    assert paths(tmp_path) == ["own/js"]


def test_line_ends_and_marks_become_the_same_everywhere(tmp_path: Path) -> None:
    write(tmp_path, "a.py", b"\xef\xbb\xbf\r\none\r\ntwo\rthree\n\n")
    assert text(tmp_path) == "one\ntwo\nthree"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_encodings_with_a_mark_are_text(tmp_path: Path, encoding: str) -> None:
    write(tmp_path, "a.txt", "grüße".encode(encoding))
    assert text(tmp_path) == "grüße"


@pytest.mark.parametrize("data", [b"caf\xe9 au lait", b"caf\xed\xa0\x80 au lait", b"caf\xf0\x9f au lait"])
def test_bytes_that_are_not_utf8_are_replaced_lone_surrogates_included(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, "a.txt", data)
    found = text(tmp_path)
    assert found.startswith("caf\ufffd")
    assert found.endswith(" au lait")
    found.encode()


def test_indentation_at_the_beginning_of_a_file_stays(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "\n    first\nsecond  \n")
    assert text(tmp_path) == "    first\nsecond"


def test_of_a_notebook_the_sources_are_kept_and_the_outputs_are_not(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {"cell_type": "code", "source": "print('\ud800')", "outputs": [{"data": {"image/png": "iVBOR" * 100}}]},
    ]
    write(tmp_path, "a.ipynb", json.dumps({"cells": cells}))
    assert text(tmp_path) == "# [markdown]\n# Title\nwords\n\n# [code]\nprint('?')"


@pytest.mark.parametrize(("outputs", "sources", "kept"), [(2, 0, True), (0, 2, False)])
def test_a_notebook_may_be_large_for_its_outputs_but_not_for_its_sources(
    tmp_path: Path, outputs: int, sources: int, kept: bool
) -> None:
    cell = {"cell_type": "code", "source": "a = 1\n" + "b\n" * (sources << 19), "outputs": "x" * (outputs << 20)}
    write(tmp_path, "a.ipynb", json.dumps({"cells": [cell]}))
    assert paths(tmp_path) == (["a.ipynb"] if kept else [])


@pytest.mark.parametrize("content", ["{", "[]", '{"cells": 3}', '{"cells": [{}]}', "[" * 50_000])
def test_what_only_calls_itself_a_notebook_is_left_out(tmp_path: Path, content: str) -> None:
    write(tmp_path, "a.ipynb", content)
    assert paths(tmp_path) == []


def test_links_are_not_followed_neither_in_circles_nor_out_of_the_repository(tmp_path: Path) -> None:
    secret = write(tmp_path, "secret.txt", "secret")
    top = tmp_path / "repository"
    write(top, "a/own.py", "x")
    (top / "a" / "loop").symlink_to(top)
    (top / "self").symlink_to("self")
    (top / "stolen.txt").symlink_to(secret)
    (top / "outside").symlink_to(tmp_path)
    assert paths(top) == ["a/own.py"]


def test_a_pipe_in_the_folder_does_not_make_it_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert paths(tmp_path) == []


def test_names_with_line_breaks_and_broken_bytes_stay_on_one_line(tmp_path: Path) -> None:
    write(tmp_path, "a\n===== b.py =====", "x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py")).write_text("y")
    found = paths(tmp_path)
    assert found == ["a\\n===== b.py =====", "\\udcff.py"]
    "".join(found).encode()


def test_what_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="nowhere cannot be read: No such file"):
        read_folder(tmp_path / "nowhere")


def test_an_archive_of_a_folder_has_the_same_text_as_the_folder(tmp_path: Path) -> None:
    put(tmp_path, README="one", sub__a="two", node_modules__a="three", third_party__b="four")
    (tmp_path / "link").symlink_to("README")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(tmp_path, "name-of-the-folder")
    buffer.seek(0)
    assert read_tar(buffer) == read_folder(tmp_path)
    assert len(read_folder(tmp_path)) == 2


def test_a_damaged_archive_is_an_error() -> None:
    with pytest.raises(RepositoryError, match="archive"):
        read_tar(io.BytesIO(b"nothing of the kind" * 100))
