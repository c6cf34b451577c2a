"""A recipe says what an image is made of; what is wrong with one is told by file and field before anything is built."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import ml_bench_dataset
import ml_bench_sample
from ml_bench_metric.environments.recipe import (
    GPU_REQUIREMENTS,
    REQUIREMENTS,
    STAND_INS,
    Asset,
    Cause,
    Device,
    KnownIssue,
    RecipeError,
    read_package_set,
    read_recipe,
)
from ml_bench_metric.environments.registry import layers, recipe_for, recipes
from ml_bench_metric.sandbox.execution import Assets
from tests.recipe_builders import HASH, RecipeFolder, lock


def test_every_repository_of_the_sample_has_an_environment_at_its_own_folder() -> None:
    tasks = ml_bench_dataset.read_split("sample", "L").rows
    for name in {str(row["repository"]) for row in tasks}:
        recipe = recipe_for(name)
        assert recipe.name == "sample"
        assert (ml_bench_sample.repositories() / recipe.directories[name]).is_dir()


def test_a_benchmark_repository_comes_at_the_commit_and_folder_that_the_data_set_says() -> None:
    recipe = recipe_for("External-Attention-pytorch")
    (found,) = recipe.checkouts
    assert found.commit == "90e774ed4a2a734fe91dde6a4a737de0f0c54122"
    assert found.url == "https://github.com/xmu-xiaoma666/External-Attention-pytorch"
    assert recipe.directories == {"External-Attention-pytorch": "External-Attention-pytorch"}
    assert recipe.image == "ml-bench/external-attention-pytorch"


@pytest.mark.parametrize("name", [item.name for item in ml_bench_dataset.REPOSITORIES if item.commit])
def test_every_repository_of_the_benchmark_has_an_environment(name: str) -> None:
    recipe = recipe_for(name)
    assert name in recipe.repositories
    assert layers(recipe)[0].python


def test_what_recipes_say_of_tasks_is_about_their_own() -> None:
    for recipe in recipes():
        named = [*recipe.tasks, *(task for asset in recipe.assets for task in asset.tasks)]
        named += [task for issue in recipe.known_issues for task in issue.tasks]
        assert {task.rpartition("/")[0] for task in named} <= set(recipe.directories), recipe.name
        if recipe.tasks:
            assert set(named) <= set(recipe.tasks), recipe.name


def test_programs_of_recipes_are_python_and_short_enough_for_a_variable() -> None:
    for recipe in recipes():
        files = [layer.folder / script for layer in layers(recipe) for script in layer.scripts]
        for file in [*files, *recipe.folder.glob(STAND_INS)]:
            text = file.read_text(encoding="utf-8")
            compile(text, str(file), "exec")
            assert len(text.encode()) < 131_000, f"{file}: Linux takes no longer variable"


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "must be a mapping"),
        ("name: [x", "is not YAML"),
        ("1: 2", "1"),
        ('python: "3.11"\npackage: p', "name:"),
        ("name: r\npython: 3.11\npackage: p", "python:"),
        ('name: r\npython: "2.7"\npackage: p', "python:"),
        ("name: r\npackage: p", "either python or extends"),
        ('name: r\npython: "3.11"\nextends: torch\npackage: p', "either python or extends"),
        ("name: r\nextends: ../torch\npackage: p", "extends:"),
        ('name: r\npython: "3.11"\npip: [numpy==1.0]\npackage: p', "pip:"),
        ('name: r\npython: "3.11"\npip_index: x --trusted-host=y\npackage: p', "pip_index:"),
        ('name: r\npython: "3.11"\napt: ["-o X"]\npackage: p', "apt[0]:"),
        ('name: r\npython: "3.11"\nimports: ["os; evil()"]\npackage: p', "imports[0]:"),
        ('name: r\npython: "3.11"\nscripts: [../../etc/passwd]\npackage: p', "scripts[0]:"),
        ('name: r\npython: "3.11"\nscripts: [nothing.py]\npackage: p', "scripts: there is no file"),
        ('name: r\npython: "3.11"\nenvironment: {A: 1}\npackage: p', "environment.A:"),
        ('name: r\npython: "3.11"\nenvironment: {A B: x}\npackage: p', "environment.A B"),
        ('name: r\npython: "3.11"\ncolour: blue\npackage: p', "colour:"),
        ('name: r\npython: "3.11"\nfolder: /tmp\npackage: p', "folder:"),
        ('name: r\npython: "3.11"\ngpu: maybe\npackage: p', "gpu:"),
        ('name: r\npython: "3.11"\ntasks: [dgl]\npackage: p', "tasks[0]:"),
        ('name: r\npython: "3.11"\nrepositories: [DAGNN]', "no commit of 'DAGNN'"),
        ('name: r\npython: "3.11"', "either repositories or package"),
        ('name: r\npython: "3.11"\nrepositories: [dgl]\npackage: p', "either repositories or package"),
        ('name: other\npython: "3.11"\npackage: p', "name: is 'other', but the folder is 'r'"),
    ],
)
def test_a_faulty_recipe_is_refused_with_file_and_field(tmp_path: Path, text: str, field: str) -> None:
    file = tmp_path / "r" / "environment.yaml"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(RecipeError) as error:
        read_recipe(file.parent)
    assert str(file) in str(error.value)
    assert field in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("- torch", "must be a mapping"),
        ("name: s", "either python or extends"),
        ('name: s\npython: "3.11"\npackage: p', "package:"),
        ('name: s\npython: "3.11"\nenvironment: {A: b}', "environment:"),
        ('name: s\npython: "3.11"\nassets: []', "assets:"),
        ('name: s\npython: "3.11"\nscripts: [nothing.py]', "scripts: there is no file"),
        ('name: t\npython: "3.11"', "name: is 't', but the folder is 's'"),
    ],
)
def test_a_faulty_package_set_is_refused_with_file_and_field(tmp_path: Path, text: str, field: str) -> None:
    file = tmp_path / "s" / "packages.yaml"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(RecipeError) as error:
        read_package_set(file.parent)
    assert str(file) in str(error.value)
    assert field in str(error.value)


@pytest.mark.parametrize("name", [REQUIREMENTS, GPU_REQUIREMENTS])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# one\nnumpy==1.26.4\n", r"line 2: numpy==1\.26\.4 has no --hash"),
        (f"numpy>1 {HASH}\n", "line 1: 'numpy>1' is not pinned"),
        ("\udcff", "can't decode"),
    ],
)
def test_a_lock_that_is_none_is_named_by_file_and_line(
    recipe_folder: RecipeFolder, name: str, text: str, said: str
) -> None:
    folder = recipe_folder.root / "packages" / "s"
    recipe_folder.package_set("s")
    (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecipeError, match=said) as error:
        read_package_set(folder)
    assert str(error.value).startswith(f"{folder / name}: ")


ASSET = {"name": "weights", "url": "https://example.org/w.bin", "to": "/opt/assets/w.bin"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"url": None}, "give a url, or say in how"),
        ({"url": None, "how": " "}, "give a url, or say in how"),
        ({"url": "ftp://example.org/w.bin"}, "assets[0].url:"),
        ({"to": "opt/assets"}, "assets[0].to:"),
        ({"to": "/opt/../etc"}, "assets[0].to:"),
        ({"to": "/opt/assets/"}, "assets[0].to:"),
        ({"to": "/"}, "assets[0].to:"),
        ({"sha256": "A" * 64}, "assets[0].sha256:"),
        ({"bytes": 0}, "assets[0].bytes:"),
        ({"unpack": "rar"}, "assets[0].unpack:"),
        ({"tasks": ["dgl"]}, "assets[0].tasks[0]:"),
        ({"size": 3}, "assets[0].size:"),
    ],
)
def test_a_faulty_asset_is_named(recipe_folder: RecipeFolder, change: dict[str, object], field: str) -> None:
    with pytest.raises(RecipeError) as error:
        recipe_folder.recipe("r", assets=[{**ASSET, **change}])
    assert field in str(error.value)


def test_two_assets_of_one_name_are_refused(recipe_folder: RecipeFolder) -> None:
    with pytest.raises(RecipeError, match="there are two called 'weights'"):
        recipe_folder.recipe("r", assets=[ASSET, {**ASSET, "to": "/opt/assets/other.bin"}])


ISSUE = {"tasks": ["dgl/1"], "cause": "reference", "reason": "It names a file that is nowhere."}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tasks": []}, "known_issues[0].tasks:"),
        ({"tasks": ["dgl"]}, "known_issues[0].tasks[0]:"),
        ({"cause": "weather"}, "known_issues[0].cause:"),
        ({"reason": " "}, "known_issues[0].reason:"),
        ({"rules": ["lenient"]}, "known_issues[0].rules[0]:"),
    ],
)
def test_a_faulty_known_issue_is_named(recipe_folder: RecipeFolder, change: dict[str, object], field: str) -> None:
    with pytest.raises(RecipeError) as error:
        recipe_folder.recipe("r", known_issues=[{**ISSUE, **change}])
    assert field in str(error.value)


@pytest.mark.parametrize("package", ["no_such_package", "json"])
def test_a_package_without_repositories_is_a_fault_of_the_recipe(recipe_folder: RecipeFolder, package: str) -> None:
    recipe = recipe_folder.recipe("r", package=package)
    with pytest.raises(RecipeError, match=f"package: {package} cannot be used"):
        _ = recipe.directories


# ---------------------------------------------------------------- what a recipe says


def test_a_gpu_takes_its_own_requirements_where_there_are_some(recipe_folder: RecipeFolder) -> None:
    both = recipe_folder.package_set("both", {**lock("a==1"), GPU_REQUIREMENTS: f"a==2 {HASH}\n"})
    assert (both.requirements("cpu")[:4], both.requirements("gpu")[:4]) == ("a==1", "a==2")
    one = recipe_folder.package_set("one", lock("a==1"))
    assert one.requirements("gpu") == one.requirements("cpu") != ""
    assert recipe_folder.package_set("none").requirements("gpu") == ""


def test_stand_ins_are_found_beside_the_recipe_and_mean_that_assets_are_needed(recipe_folder: RecipeFolder) -> None:
    without = recipe_folder.recipe("without")
    assert (without.stand_ins, without.needs_assets) == (None, False)
    made = recipe_folder.recipe("made", {STAND_INS: "print(1)"})
    assert (made.stand_ins, made.needs_assets) == ("print(1)", True)
    assert recipe_folder.recipe("real", assets=[ASSET]).needs_assets


@pytest.mark.parametrize("assets", get_args(Assets))
@pytest.mark.parametrize("device", get_args(Device))
@pytest.mark.parametrize("cause", get_args(Cause))
def test_a_known_issue_is_expected_only_where_its_cause_is(cause: Cause, device: Device, assets: Assets) -> None:
    issue = KnownIssue(tasks=("dgl/1",), cause=cause, reason="x")
    gone = (cause == "gpu" and device == "gpu") or (cause == "assets" and assets == "real")
    assert issue.applies(assets=assets, device=device) is not gone


def test_an_asset_without_an_address_says_what_a_person_has_to_do() -> None:
    asset = Asset(name="w", how="Ask for it at the address in the README.", to="/opt/assets/w", unpack="zip")
    assert (asset.url, asset.unpack, asset.tasks) == (None, "zip", ())
