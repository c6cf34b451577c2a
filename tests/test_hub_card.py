"""The card says what is true of the rows, of the sample and of the judge, and its programs run."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ml_bench_dataset import REPOSITORIES, parse_arguments, read_split
from ml_bench_hub.build import build_dataset
from ml_bench_hub.card import resource
from ml_bench_hub.errors import HubError
from ml_bench_hub.front_matter import split_front_matter, with_front_matter
from ml_bench_hub.leaderboard import LEADERBOARDS
from ml_bench_metric.pass_at_k import unbiased
from tests.fakehub import FakeHub
from tests.hf_caches import ROOT, jsonl, task_rows, write_source
from tests.hub_process import ClientProcess, client_process, empty_hub

SAMPLE = ROOT / "ml_bench_sample"


@pytest.fixture(scope="module")
def card() -> str:
    return (ROOT / "dataset_card.md").read_text(encoding="utf-8")


def table(card: str, header: str) -> list[list[str]]:
    """The cells of the table with this header."""
    lines = card[card.index(header) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip().strip("|").split("|")])
    return rows


def test_the_package_reads_the_card_and_the_licence_of_the_projects_root() -> None:
    for name in ("dataset_card.md", "LICENSE"):
        assert resource(name) == (ROOT / name).read_text(encoding="utf-8")


def test_the_table_of_repositories_is_that_of_the_data_set(card: str) -> None:
    rows = table(card, "| repository | domain |")
    known = [item for item in REPOSITORIES if item.github_id is not None]
    assert [(row[0], row[1], int(row[2]), int(row[5])) for row in rows] == [
        (item.name, item.domain, item.tasks["full"], item.tasks["quarter"]) for item in known
    ]
    assert all(int(row[2]) == int(row[3]) + int(row[4]) for row in rows)
    assert [sum(int(row[column]) for row in rows) for column in (2, 3, 4, 5)] == [260, 171, 89, 68]


def test_the_numbers_of_rows_of_the_sample(card: str) -> None:
    rows = {row[0] or "A": row[2] for row in table(card, "| configuration |") if "sample" in row[0]}
    assert rows == {"sample": str(len(read_split("sample", "L").rows))}
    assert f"| | `A` | {len(read_split('sample', 'A').rows)} | a part of it |" in card


def test_the_example_is_a_task_of_the_sample(card: str) -> None:
    shown = dict(table(card, "| column | value |"))
    (task,) = [row for row in read_split("sample", "L").rows if row["task_id"] == shown["task_id"]]
    assert shown == {name: task[name] for name in shown}


def test_the_examples_answers_have_the_verdicts_that_the_sample_expects(card: str) -> None:
    answers = table(card, "| answer |")
    keys = ("tiny-gan/1", (901, 1))
    lines = jsonl(SAMPLE / "predictions.jsonl")
    (given,) = [row["output"] for row in lines if row.get("task_id", (row.get("github_id"), row.get("id"))) in keys]
    expected = [row for row in jsonl(SAMPLE / "expected.jsonl") if row["task_id"] == "tiny-gan/1"]
    words = {True: "pass", False: "fail"}
    assert [row[1:3] for row in answers] == [[words[row["original"]], words[row["strict"]]] for row in expected]
    for row, text in zip(answers, given, strict=True):
        shown = row[0].removesuffix(" …")
        assert text.startswith(shown) or (shown == "the reference, in a Markdown fence" and text.startswith("```"))
    for rule in ("original", "strict"):
        n, c = np.array([5]), np.array([sum(row[rule] for row in expected)])
        assert [round(float(unbiased(n, c, k)[0]), 6) for k in (1, 2, 5)] == [0.6, 0.9, 1.0]
    assert "pass@1 is 0.6, pass@2 0.9, pass@5 1.0" in card


def test_the_leaderboards_are_those_of_eval_yaml(card: str) -> None:
    names = {board.task_id for board in LEADERBOARDS}
    first = re.findall(r"`(ml_bench_l_original)_pass_1`, `(_pass_2)`, `(_pass_5)`, and the same with `(strict)`", card)
    (parts,) = first
    rules = (parts[0], parts[0].replace("original", parts[3]))
    assert names == {rule + end for rule in rules for end in ("_pass_1", parts[1], parts[2])}


def test_the_ceiling_is_what_the_failing_references_leave(card: str) -> None:
    assert f"{100 * (260 - 23) / 260:.1f}" == "91.2"
    assert card.count("91.2") == 2


@pytest.mark.real_data
def test_what_the_card_counts_in_the_published_rows(card: str, real_data: Path) -> None:
    rows: list[dict[str, Any]] = read_split(str(real_data / "upstream"), "full").rows
    quarter: list[dict[str, Any]] = read_split(str(real_data / "upstream"), "quarter").rows
    kinds = Counter((row["repository"], row["type"]) for row in rows)
    for name, _, _, bash, python, _ in table(card, "| repository | domain |"):
        assert (kinds[name, "Bash Script"], kinds[name, "Python Code"]) == (int(bash), int(python))
    for column, words in (("instruction", "task"), ("oracle", "chose it"), ("output", "reference answer")):
        lengths = [len(row[column]) for row in rows]
        assert f"{words}, {min(lengths)} to {max(lengths):,} characters" in card
    assert sum(row["output"].strip() in row["oracle"] for row in rows) == 30
    assert [len({row["id"] for row in some}) for some in (rows, quarter)] == [201, 66]
    assert (sum(not row["path"] for row in rows), sum(bool(row["prefix_code"]) for row in rows)) == (8, 101)
    texts = [row[column] for row in rows for column in ("instruction", "oracle", "output", "prefix_code")]
    assert not [text for text in texts if re.search(r"[\w.+-]+@[\w-]+\.[\w.]+", text)]
    assert all(parse_arguments(row["arguments"]) is not None for row in rows)


# ---------------------------------------------------------------- its programs


@pytest.fixture
def hub() -> FakeHub:
    return empty_hub()


@pytest.fixture(scope="module")
def client() -> ClientProcess:
    return client_process()


def run_program(path: Path) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(str(path))
    return output.getvalue()


def test_the_programs_that_load_it_run_on_what_is_built(hub: FakeHub, client: ClientProcess, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", task_rows(3), task_rows(1))
    out = tmp_path / "ml-bench"
    manifest = build_dataset(out, source=str(source), namespace="lab")
    hub.create("datasets", "lab/ml-bench", {name: (out / name).read_bytes() for name in manifest.files})
    programs = re.findall(r"```python\n(.*?)```", (out / "README.md").read_text(), re.DOTALL)
    (program,) = [program for program in programs if "load_dataset(" in program]
    (tmp_path / "program.py").write_text(program)
    assert client.run(run_program, tmp_path / "program.py") == task_rows(1)[0]["instruction"] + "\n"
    assert any("/datasets/lab/ml-bench/resolve/" in path for path in hub.paths_of("GET"))


def test_the_command_line_of_the_card_knows_its_options(card: str) -> None:
    import typer
    from typer.testing import CliRunner

    from ml_bench_cli.evaluate import evaluate

    (line,) = re.findall(r"^ml-bench evaluate (.*)$", card, re.MULTILINE)
    app = typer.Typer()
    app.command()(evaluate)
    helped = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    for option in re.findall(r"--[a-z-]+", line):
        assert option in helped


# ---------------------------------------------------------------- front matter


def test_front_matter_comes_back_as_it_was() -> None:
    metadata = {"b": ["ä", {"x": 1}], "a": None, "text": "two\nlines: --- yes"}
    text = with_front_matter(metadata, "# Title\n---\nmore\n")
    assert split_front_matter(text, "README.md") == (metadata, "# Title\n---\nmore\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "README.md: has no front matter"),
        ("# Title\n---\na: 1\n---\n", "README.md: has no front matter"),
        ("---\na: 1\n", "README.md: has no front matter"),
        ("---\na: 1\nb: [1\n---\n", r"README.md:4: the front matter is not YAML|README.md:3: the front matter"),
        ("---\n\ta: 1\n---\n", "README.md:2: the front matter is not YAML"),
        ("---\n- a\n---\n", "README.md: the front matter is list, not a mapping"),
        ("---\n!!python/object:os.system {}\n---\n", "README.md:2: the front matter is not YAML"),
        ("---\n---\n", "NoneType"),
    ],
)
def test_broken_front_matter_is_named_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(HubError, match=reason) as error:
        split_front_matter(text, "README.md")
    assert "\n" not in str(error.value)


def test_windows_line_ends_are_read() -> None:
    assert split_front_matter("---\r\na: 1\r\n---\r\ntext", "README.md") == ({"a": 1}, "text")


def test_the_front_matter_of_the_card_is_what_yaml_says(card: str) -> None:
    metadata, body = split_front_matter(card, "dataset_card.md")
    assert metadata == yaml.safe_load(card.split("---\n")[1])
    assert body.startswith("\n# ML-Bench\n")
