"""`ml-bench assets`: nothing is downloaded unasked, only what is needed is, and every end is said in a line."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from ml_bench_cli import main
from ml_bench_cli.assets import app
from ml_bench_metric.environments.assets import AssetStore
from tests.asset_server import File, FileServer, Mishap, wait_until
from tests.hf_caches import task_rows
from tests.recipe_builders import RecipeFolder

CONTENT = b"weights" * 50_000
OTHER = b"data" * 1_000


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as running:
        running.files["/weights.bin"] = File(CONTENT)
        running.files["/data.bin"] = File(OTHER)
        yield running


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AssetStore:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("ML_BENCH_ASSETS", str(tmp_path / "store"))
    monkeypatch.delenv("ML_BENCH_SOURCE", raising=False)
    return AssetStore()


@pytest.fixture
def recipes(recipe_folder: RecipeFolder, server: FileServer) -> RecipeFolder:
    """Three recipes: bert lists three assets, dgl one, esm none."""
    for name in ("bert", "dgl", "esm"):
        recipe_folder.repository(name)
    weights = {
        "name": "weights",
        "url": server.url("/weights.bin"),
        "to": "/opt/assets/weights",
        "licence": "MIT",
    }
    data = {"name": "data", "url": server.url("/data.bin"), "to": "/opt/assets/data", "bytes": len(OTHER)}
    gated = {"name": "gated", "how": "Sign the form at\nhttps://example.org.", "to": "/opt/assets/gated"}
    recipe_folder.recipe("bert", repositories=["bert"], assets=[weights, {**data, "tasks": ["bert/2"]}, gated])
    recipe_folder.recipe("dgl", repositories=["dgl"], assets=[{**data, "name": "graph"}])
    recipe_folder.recipe("esm", repositories=["esm"])
    return recipe_folder


def assets(*arguments: object, terminal: str | None = None) -> tuple[int, str, str]:
    """Return status, standard output and error of `ml-bench assets …`, run as the console command in this process.

    `terminal` is what a person types; None for no terminal.
    """
    output, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        typed = io.StringIO(terminal)
        typed.isatty = lambda: terminal is not None  # type: ignore[method-assign]
        patch.setattr(sys, "stdin", typed)
        patch.setattr(main, "app", app)
        patch.setattr(sys, "argv", ["ml-bench assets", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main.main()
    return int(ended.value.code or 0), output.getvalue(), errors.getvalue()


@pytest.mark.usefixtures("recipes")
def test_fetch_shows_the_size_downloads_and_says_what_is_still_to_be_done(
    server: FileServer, store: AssetStore
) -> None:
    status, output, progress = assets("fetch", "bert", "--yes")
    assert status == 0
    assert output.splitlines() == [
        "bert/gated is to be got by hand: Sign the form at https://example.org.",
        "    then: ml-bench assets add bert gated FILE",
        f"2 of 3 assets are in {store.folder}",
    ]
    lines = progress.splitlines()
    assert lines[:3] == [
        f"bert/weights: 350 kB, from {server.url('/weights.bin')}",
        f"bert/data: 4 kB, from {server.url('/data.bin')}",
        f"to be downloaded into {store.folder}: 354 kB",
    ]
    assert sum(": done, sha256 " in line for line in lines) == 2
    server.requests.clear()
    assert assets("fetch", "bert", "--yes")[0] == 0 and server.requests == []


@pytest.mark.usefixtures("recipes")
def test_without_a_terminal_and_without_a_yes_nothing_is_downloaded(server: FileServer, store: AssetStore) -> None:
    status, output, progress = assets("fetch")
    assert (status, output) == (2, "") and server.asked() == [] and not store.folder.exists()
    assert progress.splitlines()[-1] == ("ml-bench: nothing was downloaded: there is no terminal to ask at; give --yes")


@pytest.mark.usefixtures("recipes")
@pytest.mark.parametrize(("typed", "downloads"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_at_a_terminal_a_person_is_asked(server: FileServer, store: AssetStore, typed: str, downloads: bool) -> None:
    status, _, progress = assets("fetch", "dgl", terminal=typed)
    assert "Download it?" in progress
    assert (status == 0) == downloads and (server.asked() != []) == downloads


@pytest.mark.usefixtures("recipes", "store")
@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        (["bert", "dgl"], ["/weights.bin", "/data.bin"]),
        ([], ["/weights.bin", "/data.bin"]),
        (["bert", "--only", "bert/1"], ["/weights.bin"]),
        (["--only", "bert/2"], ["/weights.bin", "/data.bin"]),
        (["--only", "dgl/1"], ["/data.bin"]),
        (["--only", "esm/1"], []),
        (["esm"], []),
        (["--tasks", "{tasks}", "--split", "full"], ["/weights.bin"]),
        (["dgl", "--tasks", "{tasks}", "--split", "full"], []),
        (["--tasks", "{tasks}", "--split", "full", "--only", "bert/1"], ["/weights.bin"]),
    ],
)
def test_only_what_the_chosen_tasks_need_is_fetched(
    server: FileServer, arguments: list[str], paths: list[str], tmp_path: Path
) -> None:
    rows = [{**row, "github": "https://github.com/google-research/bert", "github_id": 2} for row in task_rows(2)]
    for number, row in zip((1, 3), rows, strict=True):
        row["id"] = number
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [one.replace("{tasks}", str(tmp_path / "tasks.jsonl")) for one in arguments]
    status, output, progress = assets("fetch", *arguments, "--yes")
    assert status == 0, progress
    assert [path for path, _ in server.asked()] == paths
    if not paths:
        assert output == "no assets are needed\n"


@pytest.mark.usefixtures("recipes", "store")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nothing"], "no environment for repository 'nothing'"),
        (["--only", "nothing/1"], "no environment for repository 'nothing'"),
        (["bert", "--only", "dgl/1"], "task 'dgl/1' belongs to 'dgl', which is not among the chosen repositories"),
        (["--only", "bert"], "'bert' is no task; a task is called like bert/1"),
        (["--tasks", "sample", "--only", "bert/1"], "has no task 'bert/1'"),
        (["--tasks", "/nowhere"], "/nowhere"),
    ],
)
def test_a_wrong_choice_is_one_line_and_nothing_is_asked_for(
    server: FileServer, arguments: list[str], reason: str
) -> None:
    status, output, progress = assets("fetch", *arguments, "--yes")
    assert (status, output) == (2, "") and server.requests == []
    assert reason in progress and progress.startswith("ml-bench: ") and progress.count("\n") == 1


@pytest.mark.usefixtures("recipes", "store")
def test_what_could_not_be_had_is_said_in_the_end_and_in_the_status(server: FileServer) -> None:
    del server.files["/weights.bin"]
    status, output, progress = assets("fetch", "bert", "--yes")
    assert status == 3 and "1 of 3 assets are in" in output
    last = progress.splitlines()[-1]
    assert last.startswith(f"ml-bench: asset bert/weights ({server.url('/weights.bin')}): the server answers 404")
    assert "ml-bench assets add bert weights FILE" in last
    assert "unknown size" in progress and "4 kB, and 1 file of unknown size" in progress


@pytest.mark.usefixtures("recipes", "store")
def test_list_shows_size_state_tasks_and_licence() -> None:
    assets("fetch", "dgl", "--yes")
    status, output, _ = assets("list")
    assert status == 0
    assert [line.split(maxsplit=1)[0] for line in output.splitlines()] == [
        "bert/weights",
        "bert/data",
        "bert/gated",
        "dgl/graph",
    ]
    weights, data, gated, graph = (" ".join(line.split()) for line in output.splitlines())
    assert weights.endswith("unknown size not here all tasks MIT")
    assert data.endswith("4 kB here bert/2 no licence named"), "dgl's is the same address"
    assert gated.endswith("unknown size by hand all tasks no licence named")
    assert graph.endswith("4 kB here all tasks no licence named")
    assert assets("list", "esm") == (0, "", "none of these recipes lists an asset\n")


@pytest.mark.usefixtures("recipes")
def test_add_takes_over_a_file(store: AssetStore, tmp_path: Path) -> None:
    file = tmp_path / "gated.bin"
    file.write_bytes(OTHER)
    status, output, progress = assets("add", "bert", "gated", file)
    path = store.folder / "files" / hashlib.sha256(OTHER).hexdigest()
    assert (status, output, progress) == (0, f"bert/gated: {path}\n", "") and path.read_bytes() == OTHER
    assert "by hand" not in assets("list", "bert")[1]
    file.write_bytes(CONTENT)
    status, output, progress = assets("add", "bert", "gated", file)
    assert (status, output) == (3, "") and "--replace" in progress and progress.count("\n") == 1
    assert assets("add", "bert", "gated", file, "--replace")[0] == 0


@pytest.mark.usefixtures("recipes", "store")
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("bert", "nothing"), "bert has no asset 'nothing'; it has: weights, data, gated"),
        (("esm", "nothing"), "esm has no asset 'nothing'; it has: none"),
        (("nothing", "weights"), "no environment for repository 'nothing'"),
    ],
)
def test_add_names_what_there_is(names: tuple[str, str], reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OTHER)
    status, _, progress = assets("add", *names, tmp_path / "file")
    assert status == 2 and reason in progress and progress.count("\n") == 1


def test_add_asks_which_recipe_is_meant(recipes: RecipeFolder, store: AssetStore, tmp_path: Path) -> None:
    gated = {"name": "gated", "how": "ask", "to": "/opt/assets/gated"}
    for number, name in enumerate(("bert-large", "esm-small", "esm-large")):
        recipes.recipe(name, repositories=[name[:-6]], tasks=[f"{name[:-6]}/{number}"], assets=[gated])
    (tmp_path / "file").write_bytes(OTHER)
    status, _, progress = assets("add", "esm", "gated", tmp_path / "file")
    assert status == 2 and progress == (
        "ml-bench: several recipes of esm have an asset 'gated'; name one of: esm-large, esm-small\n"
    )
    for name in ("esm-large", "bert-large", "bert"):
        assert assets("add", name, "gated", tmp_path / "file")[1].startswith(f"{name}/gated: ")


def test_ctrl_c_ends_with_130_and_keeps_the_part(recipes: RecipeFolder, server: FileServer, store: AssetStore) -> None:
    server.mishaps["/weights.bin"] = [Mishap(sends=200_000, silent=True)]
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from ml_bench_metric.environments import registry\n"
        "read = registry.recipes.__wrapped__\n"
        f"registry.recipes = lambda: read(Path({str(recipes.root)!r}))\n"
        "from ml_bench_cli import assets, main\n"
        "main.app = assets.app\n"
        "main.main()\n"
    )
    command = [sys.executable, "-c", program, "fetch", "bert", "--yes"]
    with subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: sum(path.stat().st_size for path in store.folder.glob("partial/*.part")) > 100_000)
        process.send_signal(signal.SIGINT)
        _, progress = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "bert/weights: interrupted; " in progress and "Traceback" not in progress
    assert len(list(store.folder.glob("partial/*.part"))) == 1
    assert assets("fetch", "bert", "--yes")[0] == 0
    path = store.folder / "files" / hashlib.sha256(CONTENT).hexdigest()
    assert path.read_bytes() == CONTENT and server.asked()[1][1]["range"].startswith("bytes=")
