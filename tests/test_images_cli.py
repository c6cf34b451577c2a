"""`ml-bench images`: what is asked for reaches the builder, and every answer has its line and its exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ml_bench_cli.main import main
from ml_bench_metric.environments import build as building
from ml_bench_metric.environments import check as checking
from ml_bench_metric.environments.build import BuiltImage, Options
from ml_bench_metric.environments.build_log import BuildError
from ml_bench_metric.environments.check import Finding
from ml_bench_metric.environments.registry import recipes
from ml_bench_metric.sandbox import docker_engine
from tests.image_archives import labels, write_archive
from tests.recipe_builders import FakeEngine, RecipeFolder, environment_record
from tests.stored_images import FakeImages

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `ml-bench images` with arguments; return exit status, standard output and error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ml-bench", "images", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Let the command line find an engine of a test's own."""
    return lambda engine: monkeypatch.setattr(docker_engine, "connect", lambda: engine)


@pytest.fixture
def engine(connected: Callable[[object], None]) -> FakeImages:
    """An engine with an image that was built last and one that it took the place of."""
    engine = FakeImages()
    engine.add("ml-bench/r:" + "a" * 12, "ml-bench/r:latest", layers="BA", labels=labels())
    engine.add("ml-bench/r:" + "b" * 12, layers="BC", labels=labels(digit="b"), sizes={"C": 12_345_678})
    connected(engine)
    return engine


# ---------------------------------------------------------------- build


class _Builder:
    """Stands for the builder; keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Options, int]] = []
        self.error: Exception | None = None

    def __call__(
        self, names: list[str], client: object, options: Options, *, jobs: int, progress: Callable[[str], None]
    ) -> list[BuiltImage]:
        self.asked.append((list(names), options, jobs))
        progress("r: a step …")
        if self.error:
            raise self.error
        return [
            BuiltImage("r", "ml-bench/r:stand-in-1", "sha256:1", "stand_in", 3, 1.26, 321_000_000, False),
            BuiltImage("s", "ml-bench/s:2", "sha256:2", "not_needed", 0, 0.01, 2_345_000_000, True),
        ]


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch, connected: Callable[[object], None]) -> Iterator[_Builder]:
    connected(None)
    builder = _Builder()
    monkeypatch.setattr(building, "build", builder)
    yield builder


def test_without_options_the_best_images_for_a_cpu_are_built(images: Run, builder: _Builder) -> None:
    status, out, err = images("build")
    assert status == 0
    assert builder.asked == [([], Options(), 2)]
    assert err == "r: a step …\n"
    assert out.splitlines() == [
        "ml-bench/r:stand-in-1  321 MB, stand-ins, 3 files missing  built in 1.3 s  sha256:1",
        "ml-bench/s:2  2.35 GB, no assets needed  unchanged in 0.0 s  sha256:2",
    ]


def test_every_option_reaches_the_builder(images: Run, builder: _Builder, tmp_path: Path) -> None:
    given = [
        *("--base", "bootstrap", "--repositories", tmp_path, "--assets", "stand-in", "--device", "gpu"),
        *("--platform", "linux/arm64", "--jobs", "5", "--without-checkout", "sample", "tiny-gan"),
    ]
    assert images("build", *given)[0] == 0
    assert builder.asked == [
        (["sample", "tiny-gan"], Options("bootstrap", tmp_path, "stand_in", "gpu", "linux/arm64", False), 5)
    ]


def test_images_that_could_not_be_built_are_status_3_with_all_reasons(images: Run, builder: _Builder) -> None:
    builder.error = BuildError("r: pip: ended with status 1\ns: apt-get: not finished after 900 s")
    status, out, err = images("build")
    assert (status, out) == (3, "")
    assert "r: pip: ended with status 1\ns: apt-get: not finished" in err


def test_an_unknown_repository_is_status_2_before_an_engine_is_looked_for(
    images: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    status, _, err = images("build", "nothing")
    assert status == 2
    assert "no environment for repository 'nothing'" in err


def test_a_faulty_recipe_is_status_2_with_file_and_field(images: Run, recipe_folder: RecipeFolder) -> None:
    folder = recipe_folder.root / "r"
    folder.mkdir()
    (folder / "environment.yaml").write_text("name: r\npackage: some_repositories\n")
    status, _, err = images("build")
    assert status == 2
    assert f"{folder / 'environment.yaml'}: " in err
    assert "python" in err


@pytest.mark.parametrize(
    "option", [("--assets", "some"), ("--device", "tpu"), ("--jobs", "0"), ("--repositories", "/no/such/folder")]
)
def test_an_option_that_makes_no_sense_is_status_2(images: Run, builder: _Builder, option: tuple[str, str]) -> None:
    assert images("build", *option)[0] == 2
    assert builder.asked == []


# ---------------------------------------------------------------- list, recipes


@pytest.fixture
def listed(connected: Callable[[object], None]) -> None:
    connected(
        FakeEngine(
            environment_record("r", "a", kind="gpu-stand-in", assets="stand_in", device="gpu", latest=True, missing=3),
            environment_record("s", "b", repositories="one,two", tasks="one/1,one/2", created=7),
            environment_record(
                "t", "c", kind="arm64-packages-only", platform="linux/arm64", checkout=False, latest=True
            ),
        )
    )


def test_images_are_listed_with_what_an_evaluation_has_to_know(images: Run, listed: None) -> None:
    status, out, _ = images("list")
    assert status == 0
    assert out.splitlines() == [
        f"ml-bench/r:gpu-stand-in-{'a' * 12}  r  0 kB, gpu, stand-ins, 3 files missing  sha256:{'a' * 64}",
        f"ml-bench/s:{'b' * 12}  one, two (2 tasks)  0 kB, cpu, no assets needed, not the latest  sha256:{'b' * 64}",
        f"ml-bench/t:arm64-packages-only-{'c' * 12}  t  0 kB, cpu, no assets needed, linux/arm64, packages only  "
        f"sha256:{'c' * 64}",
    ]


def test_images_are_listed_for_programs_too(images: Run, listed: None) -> None:
    rows = [json.loads(line) for line in images("list", "--json")[1].splitlines()]
    assert [(row["recipe"], row["device"], row["assets"], row["current"]) for row in rows] == [
        ("r", "gpu", "stand_in", True),
        ("s", "cpu", "not_needed", False),
        ("t", "cpu", "not_needed", True),
    ]
    assert rows[1]["repositories"] == ["one", "two"]


def test_an_engine_without_images_is_no_fault(images: Run, connected: Callable[[object], None]) -> None:
    connected(FakeEngine())
    assert images("list") == (0, "", "no images yet; ml-bench images build makes them\n")


def test_every_recipe_is_listed_and_the_four_unpublished_repositories_as_unknown(images: Run) -> None:
    status, out, _ = images("recipes")
    assert status == 0
    rows = [json.loads(line) for line in images("recipes", "--json")[1].splitlines()]
    known, unknown = [row for row in rows if not row["unknown"]], [row for row in rows if row["unknown"]]
    assert [row["name"] for row in known] == [recipe.name for recipe in recipes()]
    assert [row["name"] for row in unknown] == ["Stable Diffusion", "DAGNN", "Medical Zoo", "Tensor2Tensor"]
    assert [line.partition(":")[0] for line in out.splitlines()] == [row["name"] for row in rows]
    assert [line for line in out.splitlines() if ": unknown;" in line] == out.splitlines()[-4:]


def test_what_a_recipe_needs_is_in_its_line(images: Run, recipe_folder: RecipeFolder) -> None:
    recipe_folder.package_set("shared")
    issue = {"tasks": ["dgl/1", "dgl/2"], "cause": "gpu", "reason": "it asks for CUDA"}
    asset = {"url": "https://example.org/x", "to": "/opt/assets/x"}
    recipe_folder.recipe(
        "r",
        {"stand_ins.py": "print()"},
        extends="shared",
        repositories=["dgl"],
        tasks=["dgl/1"],
        gpu="optional",
        assets=[{"name": "a", "bytes": 12_000_000, **asset}, {"name": "b", **asset}],
        known_issues=[issue, issue],
    )
    out = images("recipes")[1]
    assert out.splitlines()[0] == (
        "r: Python 3.11, on packages shared, serves dgl, only 1 tasks, GPU optional, 2 assets (at least 12 MB), "
        "has stand-ins, known issues of 2 references"
    )


# ---------------------------------------------------------------- check


@pytest.mark.parametrize(("state", "status"), [("ok", 0), ("older", 0), ("unknown", 0), ("fault", 1)])
def test_a_check_has_a_line_for_everything_and_status_1_for_a_fault(
    images: Run, engine: FakeImages, monkeypatch: pytest.MonkeyPatch, state: Any, status: int
) -> None:
    asked: list[Any] = []

    def check(client: object, chosen: Any, mirrors: Path | None) -> Iterator[Finding]:
        asked.extend([[image.name for image in chosen], mirrors])
        yield Finding("ml-bench/r:1", "labels", "ok")
        yield Finding("ml-bench/r:1", "recipe", state, "some detail")
        yield Finding("ml-bench/r:1", "python 3.11", "ok")

    monkeypatch.setattr(checking, "check_images", check)
    assert images("check", "r") == (
        status,
        "ok       ml-bench/r:1  labels\n"
        f"{state:<7}  ml-bench/r:1  recipe: some detail\n"
        "ok       ml-bench/r:1  python 3.11\n",
        "",
    )
    assert asked == [["ml-bench/r:" + "a" * 12], None]


def test_checking_what_was_never_built_is_status_3_with_the_way_out(images: Run, engine: FakeImages) -> None:
    status, _, err = images("check", "sample")
    assert status == 3
    assert "no image of sample has been built: `ml-bench images build sample`" in err


# ---------------------------------------------------------------- prune


def test_prune_shows_what_would_go_and_does_nothing(images: Run, engine: FakeImages) -> None:
    assert images("prune") == (
        0,
        f"remove  ml-bench/r:{'b' * 12}  12 MB with what it shares\n",
        "nothing was removed; --yes does it, and frees about 12 MB\n",
    )
    assert engine.removed == []


def test_prune_removes_with_yes(images: Run, engine: FakeImages) -> None:
    status, _, err = images("prune", "--yes")
    assert (status, err) == (0, f"ml-bench/r:{'b' * 12} is removed\n")
    assert engine.removed == ["ml-bench/r:" + "b" * 12]
    assert images("prune", "--yes") == (0, "", "there is nothing to remove\n")


def test_prune_says_what_it_leaves_and_why(images: Run, engine: FakeImages) -> None:
    engine.used[f"sha256:{1:064x}"] = "a-container"
    assert images("prune") == (
        0,
        f"leave   ml-bench/r:{'b' * 12}: container a-container uses it\n",
        "there is nothing to remove\n",
    )


# ---------------------------------------------------------------- export, import


def test_what_was_exported_is_named(images: Run, engine: FakeImages, tmp_path: Path) -> None:
    names = ("ml-bench/r:" + "a" * 12, "ml-bench/r:latest")
    engine.archive = write_archive(tmp_path / "engine.tar", [(names, labels())]).read_bytes()
    status, out, err = images("export", tmp_path / "x.tar", "r")
    assert (status, out) == (0, f"{names[0]}  sha256:{0:064x}\n")
    assert err.splitlines()[-1].startswith(f"{tmp_path / 'x.tar'}: ")
    assert engine.asked == list(names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "x.zip"], "x.zip: the name must end with .tar or .tar.gz"),
        (["export", "no/such/x.tar"], "no/such/x.tar cannot be written: No such file or directory"),
        (["import", "missing.tar"], "missing.tar cannot be read: No such file or directory"),
        (["import", "broken.tar"], "broken.tar is no archive of images, or is not whole"),
        (["import", "foreign.tar"], "foreign.tar has an image that is no environment of ml-bench: python:3.11"),
    ],
)
def test_a_file_that_cannot_be_used_is_status_2_in_one_line(
    images: Run, engine: FakeImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.tar").write_bytes(b"text " * 1000)
    write_archive(Path("foreign.tar"), [(["python:3.11"], {})])
    status, _, err = images(*arguments)
    assert status == 2
    assert f"ml-bench: {message}" in err
    assert len(err.splitlines()[-1]) < 250
    assert engine.loaded == b""
