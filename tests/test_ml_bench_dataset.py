"""The data set: reading and checking rows, finding sources, and the builder for `datasets`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ml_bench_dataset as data

ROOT = Path(data.__file__).parent
DGL = "https://github.com/dmlc/dgl"


def row(**changes: object) -> dict[str, object]:
    return {
        "github_id": 1,
        "github": DGL,
        "repo_id": 7,
        "path": "./examples",
        "arguments": "{'epochs': 5, 'lr': 0.5, 'data': 'karate'}",
        "instruction": "Train for 5 epochs.",
        "oracle": "train.py takes --epochs",
        "type": "Bash Script",
        "id": 3,
        "prefix_code": "",
        "output": "python train.py --epochs 5 --lr 0.5 --data karate",
        **changes,
    }


def own(**changes: object) -> dict[str, object]:
    """A row of somebody's own benchmark."""
    return row(github_id=901, github="https://example.org/lab/toy-repo.git", **changes)


def without(column: str) -> dict[str, object]:
    return {name: value for name, value in row().items() if name != column}


def write_parquet(path: Path, rows: list[dict[str, object]], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, **options)
    return path


def write_lines(path: Path, rows: list[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in rows), encoding="utf-8")
    return path


def write_folder(folder: Path, **splits: list[dict[str, object]]) -> Path:
    for split, rows in splits.items():
        write_parquet(folder / "data" / f"{split}-00000-of-00001.parquet", rows)
    return folder


def numbered(count: int) -> list[dict[str, object]]:
    return [row(id=number, output=f"python train.py --seed {number}") for number in range(count)]


@pytest.fixture(autouse=True)
def no_source_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ML_BENCH_SOURCE", raising=False)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")


# ---------------------------------------------------------------- module


def test_import_and_reading_text_load_no_heavy_library(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "tasks.jsonl", [row()])
    code = (
        "import sys, ml_bench_dataset as d; d.read_split(sys.argv[1], 'full');"
        "print([m for m in ('datasets', 'pyarrow', 'huggingface_hub', 'numpy') if m in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(source)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


def test_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'MLBenhc'"):
        data.MLBenhc  # type: ignore[attr-defined]  # noqa: B018


# ---------------------------------------------------------------- repositories


def test_repositories_are_the_eighteen_of_the_paper() -> None:
    assert len(data.REPOSITORIES) == 18
    ids = [item.github_id for item in data.REPOSITORIES]
    assert ids == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, None, None, None, None]
    assert sum(item.tasks["full"] or 0 for item in data.REPOSITORIES) == 260
    assert sum(item.tasks["quarter"] or 0 for item in data.REPOSITORIES) == 68
    assert len({hash(item) for item in data.REPOSITORIES}) == 18


def test_what_is_not_published_of_a_repository_is_null() -> None:
    for item in data.REPOSITORIES[14:]:
        facts = dataclasses.asdict(item)
        assert {name for name, value in facts.items() if value is not None} == {"name", "domain", "tasks"}
    assert all(item.tasks["id_train"] is None and item.tasks["ood_train"] is None for item in data.REPOSITORIES)


def test_published_repositories_have_full_commits_and_directories() -> None:
    for item in data.REPOSITORIES[:14]:
        assert item.url is not None and item.commit is not None
        assert len(item.commit) == 40 and int(item.commit, 16)
        assert item.directory == item.name == item.url.rsplit("/", 1)[-1]
        assert item.environment is not None and item.environment.endswith("_DS")


@pytest.mark.parametrize(
    ("github_id", "url", "name"),
    [
        (1, DGL, "dgl"),
        (1, "https://GitHub.com/DMLC/dgl.git/", "dgl"),
        (4, "https://github.com/deep-floyd/IF/", "if"),
        (2, DGL, None),
        (12, "https://github.com/CompVis/stable-diffusion", None),
    ],
)
def test_repository_of_needs_id_and_url(github_id: int, url: str, name: str | None) -> None:
    found = data.repository_of(github_id, url)
    assert (found and found.name) == name


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("{'lr': '0', 'stacks': 5, 'rate': 0.5}", {"lr": "0", "stacks": 5, "rate": 0.5}),
        ("{}", {}),
        ("  {'a': ''}\n", {"a": ""}),
        ("{'a': -1, 'b': -2.5}", {"a": -1, "b": -2.5}),
        ('{"it\'s": "a \\"quote\\""}', {"it's": 'a "quote"'}),
        ({"from": "an old file"}, {"from": "an old file"}),
    ],
)
def test_parse_arguments_reads_literals_and_dicts(value: object, expected: dict[str, object]) -> None:
    assert data.parse_arguments(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "None",
        "[1]",
        "'text'",
        "{'a'}",
        "{'a': 1",
        "{'a': 1} trailing",
        "{'a': True}",
        "{'a': None}",
        "{'a': [1]}",
        "{'a': {'b': 1}}",
        "{'a': 1j}",
        "{'a': 1e999}",
        "{1: 'a'}",
        "{'a': 1, 'a': 2}",
        "{**{'a': 1}}",
        "{'a': 'x\0'}",
        '{"a": true}',
        "{'a': " + "9" * 5000 + "}",
        "{'a': " + "-" * 100_000 + "1}",
        "(" * 5000,
        "{'a': 1" + " + 1j" * 20_000 + "}",
        "{'a': f'{1}'}",
        "__import__('os').getcwd()",
        "{'a': __import__('os').getcwd()}",
        None,
        7,
        b"{'a': 1}",
        {"a": True},
        {"a": None},
        {"a": float("nan")},
        {7: "a"},
    ],
)
def test_parse_arguments_refuses_everything_else(value: object) -> None:
    with pytest.raises(data.DataError) as caught:
        data.parse_arguments(value)
    assert len(str(caught.value)) < 300


def test_parse_arguments_runs_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(data.DataError):
        data.parse_arguments(f"{{'a': open({str(trace)!r}, 'w')}}")
    assert not trace.exists()


# ---------------------------------------------------------------- rows


def test_complete_row_adds_five_columns_in_order_and_keeps_the_eleven() -> None:
    complete = data.complete_row(row())
    assert list(complete) == list(data.COLUMNS)
    assert {name: complete[name] for name in data.UPSTREAM_COLUMNS} == row()
    assert list(complete.values())[11:] == [
        "dgl/3",
        "dgl",
        "f5c8c0b500db810210d22add9b7d6fc809edc0d2",
        "graph",
        "dgl_DS",
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(TEXT, TEXT, TEXT, st.integers(-(2**63), 2**63 - 1), st.dictionaries(TEXT, TEXT | st.integers(), max_size=3))
def test_complete_row_keeps_any_value_and_is_idempotent(
    instruction: str, output: str, path: str, number: int, arguments: dict[str, object]
) -> None:
    given_row = row(instruction=instruction, output=output, path=path, id=number, arguments=repr(arguments))
    complete = data.complete_row(given_row)
    assert {name: complete[name] for name in data.UPSTREAM_COLUMNS} == given_row
    assert data.complete_row(complete) == complete
    assert data.parse_arguments(complete["arguments"]) == arguments


def test_complete_row_writes_an_old_files_object_as_literal() -> None:
    complete = data.complete_row(row(arguments={"epochs": 5, "it's": "so"}))
    assert isinstance(complete["arguments"], str)
    assert data.parse_arguments(complete["arguments"]) == {"epochs": 5, "it's": "so"}


def test_complete_row_of_an_unlisted_repository_guesses_nothing() -> None:
    complete = data.complete_row(own())
    assert list(complete.values())[11:] == ["toy-repo/3", "toy-repo", None, None, None]


def test_complete_row_of_an_unlisted_repository_takes_what_the_row_says() -> None:
    facts = {"repository": "toy", "commit": "abc", "domain": "graph", "environment": "toy_env"}
    complete = data.complete_row(own(**facts))
    assert {name: complete[name] for name in facts} == facts
    assert complete["task_id"] == "toy/3"


def test_known_id_with_another_url_is_another_repository() -> None:
    assert data.complete_row(row(github="https://github.com/me/fork"))["commit"] is None


def test_complete_row_drops_foreign_keys_and_fills_nulls() -> None:
    complete = data.complete_row(row(note="mine", commit=None, task_id=None))
    assert "note" not in complete
    assert complete["task_id"] == "dgl/3"
    assert complete["commit"] is not None


def test_complete_row_turns_numpy_integers_into_plain_ones() -> None:
    numpy = pytest.importorskip("numpy")
    complete = data.complete_row(row(id=numpy.int64(3)))
    assert type(complete["id"]) is int


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        (without("oracle"), ["column oracle", "missing"]),
        (row(id="3"), ["column id", "str", "integer"]),
        (row(id=True), ["column id", "bool"]),
        (row(id=3.0), ["column id", "float"]),
        (row(id=None), ["column id", "NoneType"]),
        (row(repo_id=2**63), ["column repo_id", "64 bits"]),
        (row(output=None), ["column output", "null"]),
        (row(output=5), ["column output", "int", "text"]),
        (row(output="\ud800"), ["column output", "Unicode"]),
        (row(arguments={"a": "\ud800"}), []),
        (row(arguments="epochs=5"), ["column arguments", "epochs=5", "dict literal"]),
        (row(arguments=["epochs"]), ["column arguments", "list"]),
        (row(type="bash"), ["column type", "'Bash Script'", "'Python Code'"]),
        (row(github_id=901, github=""), ["column github"]),
        (row(github_id=901, github="https://example.org/.."), ["column github"]),
        (row(commit="0" * 40), ["column commit", "f5c8c0b5"]),
        (row(repository="DGL"), ["column repository", "'dgl'"]),
        (row(task_id="dgl/4"), ["column task_id", "'dgl/3'"]),
        (row(domain=5), ["column domain", "int"]),
    ],
)
def test_complete_row_names_the_fault(faulty: dict[str, object], words: list[str]) -> None:
    if not words:  # A lone surrogate inside an object is escaped by its literal, so the row is sound.
        assert data.complete_row(faulty)["arguments"] == "{'a': '\\ud800'}"
        return
    with pytest.raises(data.DataError) as caught:
        data.complete_row(faulty)
    message = str(caught.value)
    assert all(word in message for word in [*words, "github_id", "id"]), message


def test_complete_row_names_all_faults_at_once() -> None:
    with pytest.raises(data.DataError) as caught:
        data.complete_row({"github_id": 1, "id": 2})
    assert str(caught.value).count("is missing") == 9


# ---------------------------------------------------------------- digest


def test_digest_is_the_hash_of_the_complete_rows_in_order(tmp_path: Path) -> None:
    split = data.read_split(str(write_lines(tmp_path / "x.jsonl", numbered(2))), "full")
    lines = b"".join(
        json.dumps(list(data.complete_row(item).values()), separators=(",", ":")).encode() + b"\n"
        for item in numbered(2)
    )
    assert split.digest == hashlib.sha256(lines).hexdigest()


def as_large_dictionary(path: Path, rows: list[dict[str, object]]) -> None:
    table = pa.Table.from_pylist(rows)
    for index, name in enumerate(table.column_names):
        if name == "type":
            table = table.set_column(index, name, table[name].dictionary_encode())
        elif pa.types.is_string(table[name].type):
            table = table.set_column(index, name, table[name].cast(pa.large_string()))
    path.parent.mkdir(parents=True)
    pq.write_table(table, path)


def as_parts(path: Path, rows: list[dict[str, object]]) -> None:
    write_parquet(path / "data" / "full-00000-of-00002.parquet", rows[:1])
    write_parquet(path / "data" / "full-00001-of-00002.parquet", rows[1:])


def as_shuffled_columns(path: Path, rows: list[dict[str, object]]) -> None:
    write_lines(path / "full.jsonl", [dict(reversed(item.items())) for item in rows])


def as_windows_text(path: Path, rows: list[dict[str, object]]) -> None:
    path.mkdir()
    lines = [json.dumps(item).encode() for item in rows]
    (path / "full.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n\r\n".join(lines))


def as_array(path: Path, rows: list[dict[str, object]]) -> None:
    path.mkdir()
    (path / "full.json").write_text(json.dumps(rows, indent=1))


STORAGES: dict[str, Callable[[Path, list[dict[str, object]]], object]] = {
    "row groups of one": lambda path, rows: write_parquet(path / "full.parquet", rows, row_group_size=1),
    "parts": as_parts,
    "large and dictionary types": lambda path, rows: as_large_dictionary(path / "full.parquet", rows),
    "json array": as_array,
    "shuffled columns": as_shuffled_columns,
    "complete rows": lambda path, rows: write_parquet(path / "full.parquet", [data.complete_row(r) for r in rows]),
    "byte order mark, CRLF and empty lines": as_windows_text,
}


@pytest.mark.parametrize("storage", STORAGES)
def test_digest_and_rows_do_not_depend_on_storage(storage: str, tmp_path: Path) -> None:
    rows = [*numbered(3), own(output="line\u2028separator, \U0001f40d, \0")]
    expected = data.read_split(str(write_lines(tmp_path / "plain.jsonl", rows)), "full")
    STORAGES[storage](tmp_path / "other", rows)
    found = data.read_split(str(tmp_path / "other"), "full")
    assert found.rows == expected.rows
    assert found.digest == expected.digest


def test_digest_changes_with_any_value_and_with_order(tmp_path: Path) -> None:
    def digest(rows: list[dict[str, object]]) -> str:
        return data.read_split(str(write_lines(tmp_path / "x.jsonl", rows)), "full").digest

    digests = [digest([own(), own(id=4)]), digest([own(id=4), own()]), digest([own(), own(id=4, commit="abc")])]
    digests += [digest([own(), own(id=4, **{column: "{}"})]) for column in ("path", "arguments", "oracle", "output")]
    assert len(set(digests)) == len(digests)


# ---------------------------------------------------------------- sources


def test_folder_like_upstreams(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "up", full=numbered(3), quarter=numbered(1))
    split = data.read_split(str(folder), "quarter")
    assert [item["task_id"] for item in split.rows] == ["dgl/0"]
    assert (split.split, split.origin) == ("quarter", str(folder))


@pytest.mark.parametrize(("asked", "count"), [("L", 3), ("A", 1), ("full", 3), ("quarter", 1)])
def test_l_and_a_stand_for_full_and_quarter(asked: str, count: int, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "up", full=numbered(3), quarter=numbered(1))
    split = data.read_split(str(folder), asked)
    assert (len(split.rows), split.split) == (count, {3: "full", 1: "quarter"}[count])


def test_a_split_called_l_goes_before_full(tmp_path: Path) -> None:
    write_lines(tmp_path / "own" / "L.jsonl", [own()])
    write_lines(tmp_path / "own" / "full.jsonl", numbered(2))
    split = data.read_split(str(tmp_path / "own"), "L")
    assert (split.split, len(split.rows), split.warnings) == ("L", 1, ())


def test_a_file_is_the_split_asked_for(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "mine.parquet", numbered(2))
    split = data.read_split(str(path), "dev")
    assert (split.split, split.origin, split.warnings, len(split.rows)) == ("dev", str(path), (), 2)


def test_a_file_that_tells_its_split_is_not_read_as_another(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "quarter-00000-of-00001.parquet", numbered(1))
    assert len(data.read_split(str(path), "A").rows) == 1
    with pytest.raises(data.DataError, match="holds split 'quarter', not 'full'"):
        data.read_split(str(path), "full")


def test_source_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ML_BENCH_SOURCE", str(write_lines(tmp_path / "mine.jsonl", numbered(2))))
    assert len(data.read_split(None, "full").rows) == 2
    other = write_lines(tmp_path / "other.jsonl", numbered(1))
    assert len(data.read_split(str(other), "full").rows) == 1


def test_relative_source(tmp_path: Path) -> None:
    write_lines(Path("mine.jsonl"), numbered(1))
    assert data.read_split("mine.jsonl", "full").origin == str(tmp_path / "cwd" / "mine.jsonl")
    write_folder(Path("up"), full=numbered(1))
    assert data.read_split("up", "full").origin == str(tmp_path / "cwd" / "up")


@pytest.mark.parametrize(
    ("source", "split", "words"),
    [
        ("nowhere.parquet", "full", ["nowhere.parquet", "ML_BENCH_SOURCE"]),
        ("no/where.jsonl", "full", ["no/where.jsonl", "neither"]),
        ("ml-bench", "full", ["namespace/name"]),
        ("/no/such/folder", "full", ["/no/such/folder"]),
        ("../x", "full", ["'../x'"]),
        ("", "full", ["empty text"]),
        ("~nobody-of-that-name/x", "full", ["~nobody-of-that-name", "home"]),
        ("a\0b", "full", ["ML_BENCH_SOURCE"]),
        # Some libraries change how pathlib meets a name that no file can have; the way out is named in any case.
        ("x" * 5000, "full", ["xxx", "--source"]),
        ("notes.txt", "full", [".parquet, .jsonl, .json"]),
        ("empty", "full", ["no split 'full'", "data/full-*.parquet", "found: none"]),
        ("up", "id_train", ["no split 'id_train'", "data/full-00000-of-00001.parquet"]),
        ("up", "../up/data/full", ["no name of a split"]),
        ("up", "full*", ["no name of a split"]),
        ("up", "", ["no name of a split"]),
        ("sample", "full", ["it has L, A"]),
        ("empty.jsonl", "full", ["no rows"]),
    ],
)
def test_faulty_source_or_split_says_what_is_there(source: str, split: str, words: list[str]) -> None:
    Path("notes.txt").touch()
    Path("empty.jsonl").write_text("\n\n")
    Path("empty").mkdir()
    write_folder(Path("up"), full=numbered(1))
    with pytest.raises(data.DataError) as caught:
        data.read_split(source, split)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_split_in_two_places_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "up", full=numbered(1))
    write_lines(folder / "full.jsonl", numbered(2))
    with pytest.raises(data.DataError, match=r"more than once.*full-\*\.parquet.*full\.jsonl"):
        data.read_split(str(folder), "full")


@pytest.mark.parametrize(
    "names",
    [
        ["full-00000-of-00002.parquet"],
        ["full-00001-of-00002.parquet"],
        ["full-00000-of-00001.parquet", "full-00000-of-00002.parquet", "full-00001-of-00002.parquet"],
        ["full-00000-of-00001.parquet", "full-old.parquet"],
    ],
)
def test_incomplete_or_mixed_parts_are_refused(names: list[str], tmp_path: Path) -> None:
    for number, name in enumerate(names):
        write_parquet(tmp_path / "data" / name, [row(id=number)])
    with pytest.raises(data.DataError, match="not all parts of one split"):
        data.read_split(str(tmp_path), "full")


def test_one_part_of_many_is_no_split(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "full-00001-of-00003.parquet", [row()])
    with pytest.raises(data.DataError, match="not all parts"):
        data.read_split(str(path), "full")


def test_a_local_source_has_no_revision(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", [row()])
    for source in (str(path), "sample"):
        with pytest.raises(data.DataError, match="no revision 'main'"):
            data.read_split(source, "full", revision="main")


def test_contradicting_revisions_are_refused() -> None:
    with pytest.raises(data.DataError, match="contradict"):
        data.read_split("lab/toy@v1", "full", revision="v2")


# ---------------------------------------------------------------- faults in files


def fault(source: Path, split: str = "full") -> str:
    with pytest.raises(data.DataError) as caught:
        data.read_split(str(source), split)
    return str(caught.value)


def test_parquet_with_wrong_columns_names_each_column_once(tmp_path: Path) -> None:
    rows = [{**item, "id": float(number), "type": b"Bash Script"} for number, item in enumerate(numbered(9))]
    for item in rows:
        del item["oracle"]
    message = fault(write_parquet(tmp_path / "full.parquet", rows))
    assert "full.parquet" in message
    assert message.count("column ") == 3
    assert "column oracle: is missing" in message
    assert "column id: has type double, not int64" in message
    assert "column type: has type binary, not string" in message


def test_parquet_with_structs_for_arguments_is_a_wrong_type(tmp_path: Path) -> None:
    rows = [row(arguments={"a": 1}), row(id=4, arguments={"b": "x"})]
    assert "column arguments: has type struct" in fault(write_parquet(tmp_path / "x.parquet", rows))


def test_faulty_rows_are_named_by_file_row_key_and_column(tmp_path: Path) -> None:
    rows = numbered(3)
    rows[1]["arguments"] = "epochs 5"
    message = fault(write_parquet(tmp_path / "full.parquet", rows))
    assert "full.parquet, row 1 (github_id 1, id 1), column arguments: 'epochs 5'" in message
    message = fault(write_lines(tmp_path / "full.jsonl", rows))
    assert "full.jsonl, row 1 (line 2) (github_id 1, id 1), column arguments: 'epochs 5'" in message


def test_several_faults_are_reported_together_and_counted(tmp_path: Path) -> None:
    message = fault(write_lines(tmp_path / "x.jsonl", [row(id=number, output=None) for number in range(12)]))
    assert message.count("column output: is null") == 5
    assert message.endswith("and 7 more")


def test_duplicate_key_is_an_error_that_names_both_rows(tmp_path: Path) -> None:
    rows = [*numbered(3), row(id=1, output="another")]
    message = fault(write_folder(tmp_path / "up", quarter=rows), "quarter")
    assert "row 3 (github_id 1, id 1), columns github_id and id: repeat those of" in message
    assert "full" not in message and "quarter-00000-of-00001.parquet, row 1" in message


def test_same_key_with_another_url_is_a_duplicate(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", [own(), own() | {"github": "https://example.org/lab/other"}])
    assert "columns github_id and id" in fault(path)


def test_two_repositories_of_one_name_may_not_share_a_task_id(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", [own(), own() | {"github_id": 902}])
    assert "task_id toy-repo/3" in fault(path)


def test_duplicate_across_parts_is_found(tmp_path: Path) -> None:
    write_parquet(tmp_path / "full-00000-of-00002.parquet", [row()])
    write_parquet(tmp_path / "full-00001-of-00002.parquet", [row()])
    assert "full-00001-of-00002.parquet, row 0" in fault(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.jsonl", b"\xff\xfe", ["not UTF-8", "byte 0"]),
        ("x.jsonl", b'{"a": 1}\n{"a": \n', ["row 1 (line 2)", "JSON object in one line"]),
        ("x.jsonl", b"7\n", ["row 0 (line 1)", "int"]),
        ("x.jsonl", b'{"id": 1, "id": 2}\n', ["'id' occurs twice"]),
        ("x.jsonl", b"[" * 100_000, ["x.jsonl", "JSON"]),
        ("x.json", b"[1]", ["row 0", "int"]),
        ("x.json", b'[{"a": 1}', ["JSON array of rows"]),
        ("x.json", b'{\n "rows": []\n}', ["JSON object in one line"]),
        ("x.parquet", b"PAR1", ["readable parquet"]),
        ("x.parquet", b"", ["readable parquet"]),
    ],
)
def test_unreadable_files_are_named(name: str, content: bytes, words: list[str], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    message = fault(tmp_path / name)
    assert all(word in message for word in [name, *words]), message


def test_a_text_that_is_not_utf_8_in_parquet_is_an_error(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([row()])
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    pq.write_table(table.set_column(10, "output", broken), tmp_path / "x.parquet")
    assert "x.parquet, row 0 or a later one: a text is not UTF-8" in fault(tmp_path / "x.parquet")


def test_columns_that_ml_bench_does_not_have_are_reported(tmp_path: Path) -> None:
    split = data.read_split(str(write_lines(tmp_path / "x.jsonl", [row(comit="abc", note="")])), "full")
    assert list(split.rows[0]) == list(data.COLUMNS)
    assert len(split.warnings) == 1
    assert split.warnings[0].endswith("left out: comit, note")


# ---------------------------------------------------------------- training splits


def test_repeated_training_keys_get_a_suffix_and_one_warning(tmp_path: Path) -> None:
    rows = [row(), row(output="b"), row(output="c"), row(id=9)]
    split = data.read_split(str(write_lines(tmp_path / "id_train.jsonl", rows)), "id_train")
    assert [item["task_id"] for item in split.rows] == ["dgl/3", "dgl/3#2", "dgl/3#3", "dgl/9"]
    assert len(split.warnings) == 1
    assert "not unique" in split.warnings[0] and "row 1" in split.warnings[0] and "row 2" in split.warnings[0]


def test_complete_training_rows_can_be_read_again(tmp_path: Path) -> None:
    first = data.read_split(str(write_lines(tmp_path / "id_train.jsonl", [row(), row(output="b")])), "id_train")
    again = data.read_split(str(write_lines(tmp_path / "2" / "id_train.jsonl", first.rows)), "id_train")
    assert again.rows == first.rows
    assert again.digest == first.digest


def test_a_repeated_training_row_keeps_its_suffix_on_its_own(tmp_path: Path) -> None:
    split = data.read_split(str(write_lines(tmp_path / "part.jsonl", [row(task_id="dgl/3#2")])), "id_train")
    assert split.rows[0]["task_id"] == "dgl/3#2"


def test_doubtful_training_rows_are_kept_and_reported(tmp_path: Path) -> None:
    rows = [row(arguments="epochs 5"), row(id=4, oracle=None), row(id=5, type="Shell"), row(id=6, github="")]
    split = data.read_split(str(write_lines(tmp_path / "ood_train.jsonl", rows)), "ood_train")
    assert split.rows[0]["arguments"] == "epochs 5"
    assert split.rows[1]["oracle"] is None
    assert (split.rows[3]["repository"], split.rows[3]["task_id"]) == (None, "1/6")
    assert len(split.warnings) == 1
    assert all(f"column {name}" in split.warnings[0] for name in ("arguments", "oracle", "type", "github"))
    assert "column arguments" in fault(write_lines(tmp_path / "full.jsonl", rows))


def test_wrong_types_are_errors_in_training_splits_too(tmp_path: Path) -> None:
    assert "column id" in fault(write_lines(tmp_path / "id_train.jsonl", [row(id="3")]), "id_train")


def test_the_repositories_without_facts_stay_null_in_training_rows(tmp_path: Path) -> None:
    rows = [row(github_id=12, github="https://github.com/CompVis/stable-diffusion")]
    split = data.read_split(str(write_lines(tmp_path / "id_train.jsonl", rows)), "id_train")
    assert list(split.rows[0].values())[11:] == ["stable-diffusion/3", "stable-diffusion", None, None, None]


# ---------------------------------------------------------------- known and changed upstream


def published_counts(split: str) -> list[dict[str, object]]:
    return [
        row(github_id=item.github_id, github=item.url, id=number)
        for item in data.REPOSITORIES
        for number in range(item.tasks[split] or 0)
    ]


def test_changed_counts_are_named_by_repository(tmp_path: Path) -> None:
    rows = [*published_counts("quarter")[1:], own()]
    (warning,) = data.read_split(str(write_folder(tmp_path, quarter=rows)), "A").warnings
    assert "github_id 1: 4 rows instead of 5; github_id 901: 1 rows instead of 0" in warning
    assert "github_id 2" not in warning


def test_changed_contents_are_told_by_digest(tmp_path: Path) -> None:
    split = data.read_split(str(write_folder(tmp_path, full=published_counts("full"))), "full")
    (warning,) = split.warnings
    assert f"contents differ: digest {split.digest} instead of " in warning


def test_training_splits_are_held_against_their_number_of_rows(tmp_path: Path) -> None:
    (warning,) = data.read_split(str(write_folder(tmp_path, ood_train=numbered(2))), "ood_train").warnings
    assert "2 rows instead of 3564" in warning


@pytest.mark.real_data
@pytest.mark.parametrize(("split", "count"), [("full", 260), ("quarter", 68), ("L", 260), ("A", 68)])
def test_real_rows_are_the_known_ones(real_data: Path, split: str, count: int) -> None:
    found = data.read_split(str(real_data / "upstream"), split)
    assert len(found.rows) == count
    assert found.warnings == ()
    assert len({item["task_id"] for item in found.rows}) == count
    assert all(item["commit"] and item["domain"] and item["environment"] for item in found.rows)


@pytest.mark.real_data
def test_real_values_are_untouched(real_data: Path) -> None:
    path = real_data / "upstream" / "data" / "full-00000-of-00001.parquet"
    published = pq.ParquetFile(path).read().to_pylist()
    rows = data.read_split(str(path), "full").rows
    assert [{name: item[name] for name in data.UPSTREAM_COLUMNS} for item in rows] == published
    assert list(published[0]) == list(data.UPSTREAM_COLUMNS)


@pytest.mark.real_data
def test_real_quarter_lies_in_full(real_data: Path) -> None:
    full = {item["task_id"]: item for item in data.read_split(str(real_data / "upstream"), "full").rows}
    quarter = data.read_split(str(real_data / "upstream"), "quarter").rows
    assert all(full[str(item["task_id"])] == item for item in quarter)


# ---------------------------------------------------------------- sample


@pytest.mark.parametrize("split", ["L", "A"])
def test_sample_is_complete_and_its_own(split: str) -> None:
    found = data.read_split("sample", split)
    assert (found.split, found.origin, found.warnings) == (split, "sample", ())
    assert found.rows
    for item in found.rows:
        assert isinstance(item["github_id"], int) and item["github_id"] >= 901
        assert item["task_id"] == f"{item['repository']}/{item['id']}"
        assert item["domain"] and item["environment"]


def test_sample_goes_before_a_folder_of_that_name() -> None:
    write_folder(Path("sample"), full=numbered(1))
    with pytest.raises(data.DataError, match="it has L, A"):
        data.read_split("sample", "full")
    assert len(data.read_split("./sample", "full").rows) == 1


def test_without_the_samples_package_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "ml_bench_dataset.py").write_bytes(Path(data.__file__).read_bytes())
    code = "import sys; sys.path[:] = [p for p in sys.path if p != '' and 'finder' not in p];"
    code += f"sys.path.insert(0, {str(tmp_path)!r}); sys.meta_path[:] = [f for f in sys.meta_path"
    code += " if 'editable' not in repr(f).lower()]; import ml_bench_dataset as d\n"
    code += "sys.modules['ml_bench_sample'] = None\n"
    code += "try: d.read_split('sample', 'L')\nexcept d.DataError as error: print(error)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "pip install ml-bench" in ran.stdout


# ---------------------------------------------------------------- Hub


class Hub(ThreadingHTTPServer):
    """Just enough of the Hub for the client to read one data set: `commits` maps a commit to its files."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[str, bytes]] = {}
        super().__init__(("127.0.0.1", 0), HubRequest)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class HubRequest(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *arguments: object) -> None:
        pass

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if "/lab/toy" not in path:
            return self.answer(401, b"", X_Error_Code="RepoNotFound")
        before, _, rest = path.partition("/lab/toy")
        verb, revision, *name = rest.strip("/").split("/", 2) if rest else ["revision", "main"]
        commit = list(self.server.commits)[-1] if revision == "main" else revision
        files = self.server.commits.get(commit)
        if files is None:
            return self.answer(404, b"", X_Error_Code="RevisionNotFound")
        if before == "/api/datasets" and verb == "tree":
            body: object = [
                {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for path, content in files.items()
            ]
        elif before == "/api/datasets":
            siblings = [{"rfilename": path} for path in files]
            # Clients before 1.0 want all of these.
            counts = {"private": False, "disabled": False, "downloads": 0, "likes": 0, "tags": []}
            body = {"id": "lab/toy", "sha": commit, "siblings": siblings, **counts}
        elif name and name[0] in files:
            content = files[name[0]]
            return self.answer(200, content, ETag=f'"{hashlib.sha1(content).hexdigest()}"', X_Repo_Commit=commit)
        else:
            return self.answer(404, b"", X_Error_Code="EntryNotFound")
        return self.answer(200, json.dumps(body).encode(), Content_Type="application/json")

    do_HEAD = do_GET  # noqa: N815


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def in_memory(rows: list[dict[str, object]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())


CLIENT = """
import json, sys
import huggingface_hub.constants, huggingface_hub.utils
import ml_bench_dataset as data
for line in sys.stdin:
    call, *arguments = json.loads(line)
    try:
        if call == "offline":
            huggingface_hub.constants.HF_HUB_OFFLINE = arguments[0]
            # Clients before 1.0 look at the setting when they open a session.
            getattr(huggingface_hub.utils, "reset_sessions", lambda: None)()
            answer = None
        elif call == "read":
            split = data.read_split(*arguments[:2], revision=arguments[2])
            answer = [len(split.rows), split.split, split.origin]
        else:
            builder = data.MLBench(config_name=arguments[0], source=arguments[1])
            builder.download_and_prepare()
            answer = {name: len(rows) for name, rows in builder.as_dataset().items()}
    except data.DataError as error:
        answer = str(error)
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def ask(hub: Hub, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Ask a process of its own, because the client reads its settings when it is imported."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
        "PYTHONPATH": str(ROOT),
        "HF_HOME": str(tmp_path / "home"),
        "HF_ENDPOINT": hub.url,
        "HF_HUB_DISABLE_XET": "1",
    }
    errors = (tmp_path / "errors").open("w")
    pipe = subprocess.PIPE
    with (
        errors,
        subprocess.Popen(
            [sys.executable, "-c", CLIENT], env=environment, text=True, stdin=pipe, stdout=pipe, stderr=errors
        ) as client,
    ):

        def call(*words: object) -> Any:
            assert client.stdin is not None and client.stdout is not None
            client.stdin.write(json.dumps(words) + "\n")
            client.stdin.flush()
            line = client.stdout.readline()
            assert line, (tmp_path / "errors").read_text()
            return json.loads(line)

        yield call


ONE, TWO = "1" * 40, "2" * 40


def test_hub_online_then_offline_then_changed(hub: Hub, ask: Callable[..., Any]) -> None:
    hub.commits[ONE] = {
        "README.md": b"toy",
        "data/full-00000-of-00001.parquet": in_memory(numbered(3)),
        "data/quarter-00000-of-00001.parquet": in_memory(numbered(1)),
    }
    missing = ask("read", "lab/toy", "id_train", None)
    assert "no split 'id_train'" in missing and "data/quarter-00000-of-00001.parquet" in missing
    unknown = ask("read", "lab/none", "full", None)
    assert "no such data set on the Hub" in unknown and "ML_BENCH_SOURCE" in unknown
    assert "no revision 'v9'" in ask("read", "lab/toy", "full", "v9")
    assert ask("read", "lab/toy", "full", None) == [3, "full", f"lab/toy@{ONE}"]
    assert ask("build", "ML-Bench-A", "lab/toy") == {"quarter": 1}
    assert ask("build", "ML-Bench-L", "lab/toy") == {"full": 3, "quarter": 1}

    ask("offline", True)
    assert ask("read", "lab/toy", "quarter", None) == [1, "quarter", f"lab/toy@{ONE}"]
    assert ask("build", "ML-Bench-A", "lab/toy") == {"quarter": 1}
    # What the cache lacks may be on the Hub: it must not be taken for a split that does not exist.
    absent = ask("read", "lab/toy", "ood_train", None)
    assert "cannot be asked" in absent and "ML_BENCH_SOURCE" in absent
    uncached = ask("read", "lab/none", "full", None)
    assert "cannot be read" in uncached and "ML_BENCH_SOURCE" in uncached

    # Prepared rows of an older commit are not served for the new one, neither now nor offline later.
    ask("offline", False)
    hub.commits[TWO] = {**hub.commits[ONE], "data/quarter-00000-of-00001.parquet": in_memory(numbered(2))}
    assert ask("build", "ML-Bench-A", "lab/toy") == {"quarter": 2}
    assert ask("build", "ML-Bench-A", f"lab/toy@{ONE}") == {"quarter": 1}
    assert ask("read", "lab/toy", "quarter", ONE) == [1, "quarter", f"lab/toy@{ONE}"]
    ask("offline", True)
    assert ask("read", "lab/toy", "quarter", None) == [2, "quarter", f"lab/toy@{TWO}"]
    assert ask("build", "ML-Bench-A", "lab/toy") == {"quarter": 2}


def test_hub_that_does_not_answer(hub: Hub, ask: Callable[..., Any]) -> None:
    hub.shutdown()
    hub.server_close()
    message = ask("read", None, "full", None)
    assert "super-dainiu/ml-bench" in message and "cannot be read" in message and "--source" in message


# ---------------------------------------------------------------- the builder


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., Any]:
    def run(configuration: str | None = None, **arguments: Any) -> Any:
        builder = data.MLBench(config_name=configuration, cache_dir=str(tmp_path / "cache"), **arguments)
        builder.download_and_prepare()
        return builder.as_dataset()

    return run


@pytest.fixture
def upstream(tmp_path: Path) -> str:
    return str(write_folder(tmp_path / "up", full=numbered(4), quarter=numbered(2)))


def sizes(splits: Mapping[str, Any]) -> dict[str, int]:
    return {name: len(list(rows)) for name, rows in splits.items()}


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (None, {"L": 4, "A": 2}),
        ("default", {"L": 4, "A": 2}),
        ("ML-Bench-L", {"full": 4, "quarter": 2}),
        ("ML-Bench-A", {"quarter": 2}),
    ],
)
def test_configurations_have_their_splits(
    build: Callable[..., Any], upstream: str, configuration: str | None, expected: dict[str, int]
) -> None:
    assert sizes(build(configuration, source=upstream)) == expected
    assert sizes(build(configuration, data_dir=upstream)) == expected
    assert sizes(data.MLBench(config_name=configuration, source=upstream).as_streaming_dataset()) == expected


def test_prepared_rows_have_the_documented_types_and_values(build: Callable[..., Any], upstream: str) -> None:
    rows = build(source=upstream)["L"]
    assert {name: value.dtype for name, value in rows.features.items()} == data.COLUMNS
    assert list(rows) == data.read_split(upstream, "L").rows


def test_training_splits_are_read_when_there_and_left_out_in_one_line(
    build: Callable[..., Any], upstream: str, caplog: pytest.LogCaptureFixture
) -> None:
    write_parquet(Path(upstream) / "data" / "id_train-00000-of-00001.parquet", [row(), row()])
    splits = build("ML-Bench-L", source=upstream)
    assert sizes(splits) == {"full": 4, "quarter": 2, "id_train": 2}
    assert splits["id_train"]["task_id"][:] == ["dgl/3", "dgl/3#2"]
    left_out = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(left_out) == 1
    assert left_out[0].startswith("split ood_train is left out") and "\n" not in left_out[0]


def test_warnings_about_a_changed_upstream_are_logged(
    build: Callable[..., Any], upstream: str, caplog: pytest.LogCaptureFixture
) -> None:
    build("ML-Bench-A", source=upstream)
    assert any("github_id 1: 2 rows instead of 5" in record.getMessage() for record in caplog.records)


def test_missing_full_is_an_error_that_names_what_was_found(build: Callable[..., Any], tmp_path: Path) -> None:
    source = str(write_folder(tmp_path / "up", quarter=numbered(1)))
    for configuration in ("default", "ML-Bench-L"):
        with pytest.raises(data.DataError, match=r"data files found: data/quarter-00000-of-00001\.parquet"):
            build(configuration, source=source)


def test_a_file_is_one_split(build: Callable[..., Any], tmp_path: Path) -> None:
    own_file = str(write_lines(tmp_path / "mine.jsonl", numbered(3)))
    assert sizes(build("default", source=own_file)) == {"L": 3}
    assert sizes(build("ML-Bench-A", source=own_file)) == {"quarter": 3}
    quarter = str(write_lines(tmp_path / "quarter.jsonl", numbered(1)))
    assert sizes(build("default", source=quarter)) == {"A": 1}
    assert sizes(build("ML-Bench-L", source=quarter)) == {"quarter": 1}


def test_repositories_configuration(build: Callable[..., Any]) -> None:
    rows = build("repositories")["test"]
    assert len(rows) == 18
    assert rows.column_names == [
        *("github_id", "name", "url", "commit", "domain", "environment", "directory", "image", "licence"),
        *("tasks_full", "tasks_quarter", "tasks_id_train", "tasks_ood_train"),
    ]
    assert rows[0]["tasks_full"] == 21 and rows[0]["tasks_id_train"] is None
    assert rows[17]["github_id"] is None and rows[17]["name"] == "Tensor2Tensor"
    integers = {name for name, value in rows.features.items() if value.dtype == "int64"}
    assert integers == {"github_id", "tasks_full", "tasks_quarter", "tasks_id_train", "tasks_ood_train"}


def test_sample_configuration(build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ML_BENCH_SOURCE", "/no/such/folder")
    splits = build("sample")
    assert list(splits["L"]) == data.read_split("sample", "L").rows
    assert list(splits["A"]) == data.read_split("sample", "A").rows
    with pytest.raises(data.DataError, match="no other source"):
        build("sample", source="somewhere")


def test_another_source_is_never_answered_from_the_cache(
    build: Callable[..., Any], tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = str(write_folder(tmp_path / "other", full=numbered(3), quarter=numbered(1)))
    assert sizes(build(source=upstream)) == {"L": 4, "A": 2}
    assert sizes(build(source=other)) == {"L": 3, "A": 1}
    monkeypatch.setenv("ML_BENCH_SOURCE", other)
    assert sizes(build()) == {"L": 3, "A": 1}
    monkeypatch.setenv("ML_BENCH_SOURCE", upstream)
    assert sizes(build()) == {"L": 4, "A": 2}


def test_a_changed_file_is_never_answered_from_the_cache(build: Callable[..., Any], upstream: str) -> None:
    assert build("ML-Bench-A", source=upstream)["quarter"]["output"][:] == [item["output"] for item in numbered(2)]
    path = Path(upstream) / "data" / "quarter-00000-of-00001.parquet"
    times = path.stat()
    write_parquet(path, [row(id=0, output="new"), row(id=1, output="also new")])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert build("ML-Bench-A", source=upstream)["quarter"]["output"][:] == ["new", "also new"]


def test_a_training_split_that_appears_is_not_missed(build: Callable[..., Any], upstream: str) -> None:
    assert "id_train" not in build("ML-Bench-L", source=upstream)
    write_parquet(Path(upstream) / "data" / "id_train-00000-of-00001.parquet", numbered(1))
    assert "id_train" in build("ML-Bench-L", source=upstream)


def test_an_unchanged_source_is_prepared_once(
    build: Callable[..., Any], upstream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(source=upstream)
    monkeypatch.setattr(data, "_read", None)
    assert sizes(build(source=upstream)) == {"L": 4, "A": 2}


def test_the_cache_folder_is_named_after_the_configuration_alone(upstream: str, tmp_path: Path) -> None:
    # `datasets` finds prepared rows by `load_dataset("ml-bench", <configuration>)` under exactly this folder.
    builder = data.MLBench("cache", "ml-bench", "ML-Bench-L", source=upstream)
    parts = Path(builder.cache_dir).parts[-4:]
    assert parts[:3] == ("ml-bench", "ML-Bench-L", "1.0.0") and len(parts[3]) == 64
    assert (builder.config.source, builder.config.revision) == (upstream, None)
    assert data.MLBench("cache", "ml-bench", "ML-Bench-L", "0" * 64, source=upstream).cache_dir != builder.cache_dir


def test_builder_pickles_by_name(upstream: str, tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(data.MLBench)) is data.MLBench
    assert pickle.loads(pickle.dumps(data.MLBenchConfig)) is data.MLBenchConfig
    builder = pickle.loads(pickle.dumps(data.MLBench(cache_dir=str(tmp_path / "cache"), source=upstream)))
    builder.download_and_prepare()
    assert sizes(builder.as_dataset()) == {"L": 4, "A": 2}
    in_new_process = "import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1])).__qualname__)"
    command = [sys.executable, "-c", in_new_process, pickle.dumps(data.MLBench).hex()]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "MLBench\n"


def test_preparing_in_two_processes(upstream: str, tmp_path: Path) -> None:
    builder = data.MLBench(cache_dir=str(tmp_path / "cache"), source=upstream)
    builder.download_and_prepare(num_proc=2)
    assert sizes(builder.as_dataset()) == {"L": 4, "A": 2}


def test_preparing_as_parquet(upstream: str, tmp_path: Path) -> None:
    builder = data.MLBench(cache_dir=str(tmp_path / "cache"), source=upstream)
    builder.download_and_prepare(str(tmp_path / "out"), file_format="parquet")
    written = pq.ParquetFile(tmp_path / "out" / "ml_bench_dataset-L.parquet").read()
    assert written.to_pylist() == data.read_split(upstream, "L").rows


def test_reading_still_works_after_a_builder_was_made(build: Callable[..., Any], upstream: str) -> None:
    # `datasets` replaces open, pathlib.Path and more in the module of every builder that it makes.
    build(source=upstream)
    assert len(data.read_split(upstream, "full").rows) == 4
    assert len(data.read_split(str(Path(upstream) / "data" / "full-00000-of-00001.parquet"), "full").rows) == 4
    assert "no split 'id_train'" in fault(Path(upstream), "id_train")


@pytest.mark.parametrize(
    ("configuration", "arguments", "words"),
    [
        ("ML-Bench-X", {}, "no configuration 'ML-Bench-X'; there are default, ML-Bench-L"),
        ("ML-Bench-X", {"source": "sample"}, "no configuration 'ML-Bench-X'"),
        ("default", {"data_files": "x.parquet"}, "no data_files"),
        ("default", {"source": "a", "data_dir": "b"}, "both name a source"),
        ("default", {"source": "no/such.parquet"}, "neither a folder nor a file"),
        ("ML-Bench-L", {"source": "sample"}, "it has L, A"),
    ],
)
def test_builder_refuses_what_it_cannot_do(
    build: Callable[..., Any], configuration: str, arguments: dict[str, str], words: str
) -> None:
    with pytest.raises(data.DataError, match=words):
        build(configuration, **arguments)


def test_faulty_rows_stop_the_builder_with_our_message(build: Callable[..., Any], tmp_path: Path) -> None:
    import datasets

    source = str(write_folder(tmp_path / "up", full=[row(), row()], quarter=[row()]))
    with pytest.raises((data.DataError, datasets.exceptions.DatasetGenerationError)) as caught:
        build(source=source)
    chain = f"{caught.value} {caught.value.__cause__}"
    assert "row 1 (github_id 1, id 3), columns github_id and id" in chain


def test_as_loading_script(upstream: str, tmp_path: Path) -> None:
    import datasets

    script = str(ROOT / "ml_bench_dataset.py")
    options: dict[str, Any] = {"trust_remote_code": True, "cache_dir": str(tmp_path / "cache")}
    if hasattr(datasets.load, "LocalDatasetModuleFactoryWithScript"):
        assert sizes(datasets.load_dataset(script, data_dir=upstream, **options)) == {"L": 4, "A": 2}
        assert sizes(datasets.load_dataset(script, "ML-Bench-A", source=upstream, **options)) == {"quarter": 2}
        streamed = datasets.load_dataset(script, "ML-Bench-L", source=upstream, streaming=True, **options)
        assert sizes(streamed) == {"full": 4, "quarter": 2}
        names = datasets.get_dataset_config_names(script, trust_remote_code=True)
        assert names == list(data.CONFIGURATIONS)
    else:
        with pytest.raises(RuntimeError, match="scripts are no longer supported"):
            datasets.load_dataset(script, data_dir=upstream, **options)


def test_the_script_asks_for_no_package_but_the_standard_library() -> None:
    # `datasets` finds a script's imports line by line, at the line's start, outside of triple quotes.
    imported = set()
    quoted = False
    for line in Path(data.__file__).read_text(encoding="utf-8").splitlines():
        if line.count('"""') == 1:
            quoted = not quoted
        words = line.split()
        if not quoted and line.startswith(("import ", "from ")):
            imported.add(words[1].partition(".")[0])
    assert not quoted
    assert imported <= set(sys.stdlib_module_names)


# ---------------------------------------------------------------- the card


@pytest.fixture(scope="module")
def card() -> str:
    return (ROOT / "dataset_card.md").read_text(encoding="utf-8")


def test_card_has_front_matter_that_the_hub_accepts(card: str) -> None:
    import huggingface_hub

    facts = huggingface_hub.DatasetCard(card).data.to_dict()  # type: ignore[no-untyped-call]
    assert (facts["license"], facts["language"], facts["pretty_name"]) == ("mit", ["en"], "ML-Bench")
    assert {"tags", "task_categories", "size_categories"} <= facts.keys()


def test_card_lists_the_columns_in_order_and_every_configuration_and_split(card: str) -> None:
    cells = [line.split("|")[1:3] for line in card.partition("## Columns")[2].splitlines() if line.startswith("| `")]
    columns = [(name.strip(" `"), kind.strip()) for name, kind in cells]
    assert columns[: len(data.COLUMNS)] == list(data.COLUMNS.items())
    table = card.partition("## Configurations")[2].partition("## Columns")[0]
    assert all(f"`{name}`" in table for name in data.CONFIGURATIONS)
    assert all(f"`{split}`" in table for splits in data.CONFIGURATIONS.values() for split in splits)


def test_the_cards_first_program_runs(card: str, tmp_path: Path) -> None:
    program = card.partition("```python\n")[2].partition("```")[0]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    first = data.read_split("sample", "L").rows[0]
    assert ran.stdout == f"{first['task_id']} {data.parse_arguments(first['arguments'])}\n"


@pytest.mark.real_data
def test_the_cards_list_of_references_that_fail_the_original_checks(card: str, real_data: Path) -> None:
    failing = []
    for item in data.read_split(str(real_data / "upstream"), "full").rows:
        output = str(item["output"])
        values = data.parse_arguments(item["arguments"]).values()
        starts_script = ".sh " in output or ".py " in output
        if not all(str(value).lower() in output.lower() for value in values):
            failing.append(str(item["task_id"]))
        elif starts_script != (item["type"] == "Bash Script"):
            assert item["task_id"] == "muzic/256"
    listed = card.partition("others lack an argument")[2].partition("\n- ")[0]
    found = [
        f"{repository}/{number}"
        for repository, numbers in re.findall(r"`([\w-]+)/`((?:\s+\d+)+)", listed)
        for number in numbers.split()
    ]
    assert sorted(found) == sorted(failing) and len(found) == 22
