"""Tasks: the environment of candidates is what the row says and no guess, and a cut-down set is known as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ml_bench_dataset
from ml_bench_metric.tasks import Excluded, load_tasks, usable_task
from tests.result_builders import task, task_set


def variables(code: str) -> dict[str, str]:
    return task("a/1").model_copy(update={"prefix_code": code}).variables


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("export A=1", {"A": "1"}),
        ("$ export A=1 B='x y' C=$A/${B} # c", {"A": "1", "B": "x y", "C": "1/x y"}),
        (
            "export DATA=d\nexport DATA_DIR=e\nexport X=$DATA_DIR/${DATA}_$DATA",
            {"DATA": "d", "DATA_DIR": "e", "X": "e/d_d"},
        ),
        ("export B='$C'", {}),
        ("export A='${B}'\nexport B=1\nexport C=$A", {"B": "1"}),
        ("export A=x\nexport B=$A$A", {"A": "x", "B": "xx"}),
        ("A=1\npip install x", {}),
        ("export 1x=2 =3 F G=", {"G": ""}),
        ("export A='x", {}),
    ],
)
def test_exports_are_read_and_whole_names_resolved(code: str, expected: dict[str, str]) -> None:
    assert variables(code) == expected


def test_a_value_that_names_a_variable_is_not_resolved_twice() -> None:
    assert variables("export A='$' B=1\nexport C=${A}B") == {"A": "$", "B": "1", "C": "$B"}


@pytest.mark.parametrize(
    "code",
    [
        "export PATH=$PATH:/x",
        "export PYTHONPATH=${PYTHONPATH}:/x",
        "export DATA=$HOME/data",
        "export A=$(pwd)",
        "export A=`pwd`",
        "export A=${B:-x}",
        "export A=1\nexport A=$UNKNOWN",
        "export A=$UNKNOWN\nexport B=$A",
    ],
)
def test_a_variable_that_only_the_image_could_tell_is_left_to_the_image(code: str) -> None:
    assert variables(code) == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("export A=1; python x.py B=2", {"A": "1"}),
        ("export A=1;export B=$A && export C=3 && make D=4", {"A": "1", "B": "1", "C": "3"}),
        ("export A=1 | tee B=2", {"A": "1"}),
        ("export A=1 || export A=2", {"A": "1"}),
        ("export A=1 & export B=2", {"A": "1"}),
        ("export A='x;y' B=a\\;b C=\"p && q\"", {"A": "x;y", "B": "a;b", "C": "p && q"}),
    ],
)
def test_an_export_ends_where_its_command_does(code: str, expected: dict[str, str]) -> None:
    assert variables(code) == expected


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"path": "../other"}, "column path .* leads out of the repository"),
        ({"path": "a\0b"}, "column path .* holds a NUL"),
        ({"prefix_code": "export A=a\0b"}, "column prefix_code sets A .* holds a NUL"),
        ({"arguments": "{'a': [1]}"}, "list"),
        ({"type": "Perl"}, "column type"),
    ],
)
def test_a_row_that_cannot_run_is_refused_by_its_column(fault: dict[str, str], message: str) -> None:
    row = task("a/1").model_dump()
    assert usable_task(row, "here") == task("a/1")
    with pytest.raises(ml_bench_dataset.DataError, match=message):
        usable_task(row | fault, "here")


def test_a_cut_down_set_is_never_taken_for_the_whole() -> None:
    whole = task_set("a/1", "b/1", "c/1")
    part = whole.only(["c", "a", "c"])
    assert part.selection == ("a", "c")
    assert [one.task_id for one in part.tasks] == ["a/1", "c/1"]
    assert len({whole.digest, part.digest, whole.only(["a"]).digest}) == 3
    assert part.digest == whole.only(["a", "c"]).digest
    assert whole.only(["c", "b", "a"]) == whole
    for names in (["z"], []):
        with pytest.raises(ml_bench_dataset.DataError, match="a, b, c"):
            whole.only(names)


def test_a_set_without_some_tasks_says_which_and_why_and_is_another_set() -> None:
    whole = task_set("a/1", "a/2", "b/1", "c/1")
    part = whole.without({"c/1", "a/2", "other/7"}, "known-issues")
    assert [one.task_id for one in part.tasks] == ["a/1", "b/1"]
    assert part.excluded == (Excluded(why="known-issues", tasks=("a/2", "c/1")),)
    assert part.repositories == ("a", "b")
    digests = {one.digest for one in (whole, part, whole.without({"a/2"}, "known-issues"))}
    assert len(digests | {whole.without({"a/2", "c/1"}, "another reason").digest}) == 4
    assert whole.without(["a/2", "c/1"], "known-issues").digest == part.digest
    assert whole.without({"other/7"}, "known-issues") is whole


def test_a_set_can_be_cut_down_to_repositories_and_by_reasons_at_once() -> None:
    part = task_set("a/1", "a/2", "b/1").only(["a"]).without({"a/1"}, "first").without({"b/1"}, "no task of it")
    assert (part.selection, [left_out.why for left_out in part.excluded]) == (("a",), ["first"])
    assert [one.task_id for one in part.tasks] == ["a/2"]
    with pytest.raises(ml_bench_dataset.DataError, match="last: all 1 tasks"):
        part.without({"a/2"}, "last")


@pytest.mark.real_data
def test_the_real_rows_exports_are_all_read(real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full").tasks
    lines = [line for task in tasks for line in task.prefix_code.splitlines() if line.startswith("export ")]
    found = [f"export {name}={value}" for task in tasks for name, value in task.variables.items()]
    assert (len(found), json.dumps(sorted(found))) == (26, json.dumps(sorted(line.strip() for line in lines)))
