"""`ml-bench hub`: what is printed where, exit statuses, and that nothing is sent unasked."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml

from ml_bench_cli import main
from ml_bench_cli.hub import app
from ml_bench_hub.folder import MANIFEST
from tests.fakehub import WRITER, FakeHub
from tests.hf_caches import ROOT, task_rows, write_source
from tests.hub_process import ClientProcess, client_process, empty_hub
from tests.result_builders import execution, result
from tests.test_hub_eval_results import half_passing, make_run


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source"), task_rows(3), task_rows(1))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    out = tmp_path_factory.mktemp("built") / "ml-bench"
    status, _, _ = hub_command("build", str(out), "--source", str(source), "--namespace", "me")
    assert status == 0
    return out


def hub_command(*arguments: str, token: str | None = None) -> tuple[int, str, str]:
    """Return status, standard output and error of `ml-bench hub …`, run as the console command in this process."""
    output, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        if token is not None:
            patch.setenv("HF_TOKEN", token)
        patch.setattr(main, "app", app)
        patch.setattr(sys, "argv", ["ml-bench hub", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
    return int(ended.value.code or 0), output.getvalue(), errors.getvalue()


@pytest.fixture
def hub() -> FakeHub:
    return empty_hub()


@pytest.fixture(scope="module")
def client() -> ClientProcess:
    return client_process()


def test_build_says_what_it_wrote_and_check_that_it_is_fine(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "ml-bench"
    status, output, progress = hub_command("build", str(out), "--source", str(source))
    assert status == 0 and output.startswith(f"{out}: 12 files, ") and output.count("\n") == 1
    assert "default/L-00000-of-00001.parquet: 3 rows" in progress
    assert hub_command("check", str(out)) == (0, f"{out}: ok\n", "")


def test_check_prints_a_line_for_each_problem_and_ends_with_status_2(built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for path in built.rglob("*"):
        if path.is_file():
            (copy / path.relative_to(built)).parent.mkdir(parents=True, exist_ok=True)
            (copy / path.relative_to(built)).write_bytes(path.read_bytes())
    (copy / "ml-bench.py").write_text("")
    (copy / "LICENSE").write_text("")
    status, output, _ = hub_command("check", str(copy))
    assert status == 2
    assert [line.split()[0] for line in output.splitlines()] == ["ml-bench.py", "LICENSE", "ml-bench.py:"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["check", "nowhere"], "ml-bench: nowhere is no folder"),
        (["build", "{source}/data", "--source", "sample"], "ml-bench did not make it"),
        (["build", "out", "--source", "sample", "--namespace", "a/b"], "is no name of a user"),
        (["push", "{source}"], "was not made by `ml-bench hub build`"),
        (["push", "--space"], "the Space needs a namespace"),
        (["push", "{built}"], "HF_HUB_OFFLINE is set"),
        (["results", "{source}"], "is no run's folder"),
        (["build", "out", "--source", "{source}/nothing"], "is neither a folder nor a file here"),
    ],
)
def test_errors_are_one_line_and_status_2(
    arguments: list[str], reason: str, source: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    filled = [argument.format(source=source, built=built) for argument in arguments]
    status, output, errors = hub_command(*filled)
    assert status == 2 and output == "" and reason in errors
    assert errors.startswith("ml-bench: ") and errors.count("\n") == 1


def test_push_without_a_folder_and_without_the_space_says_what_to_give() -> None:
    status, _, errors = hub_command("push")
    assert status == 2 and "give a folder, or --space, or both" in errors


def test_harbor_format(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "harbor"
    status, _, progress = hub_command("build", str(out), "--source", str(source), "--format", "harbor")
    assert status == 0 and "toy-repo: 1 tasks, bare" in progress
    assert hub_command("check", str(out))[0] == 0


def test_a_dry_run_shows_every_change_and_sends_nothing(hub: FakeHub, client: ClientProcess, built: Path) -> None:
    status, output, errors = client.run(hub_command, "push", str(built), "--space", token=WRITER)
    assert status == 0 and "nothing was sent: this is a dry run; --yes publishes" in errors
    lines = output.splitlines()
    assert lines[0] == "dataset me/ml-bench is new" and "space me/ml_bench is new" in lines
    size = (built / "LICENSE").stat().st_size
    assert f"  + LICENSE  {size:,} bytes" in lines
    assert sum(line.startswith("  + ") for line in lines) > 13
    assert not hub.repos and not hub.paths_of("POST")


def test_the_space_alone(hub: FakeHub, client: ClientProcess) -> None:
    status, output, _ = client.run(hub_command, "push", "--space", "--namespace", "me", "--yes", token=WRITER)
    assert status == 0 and output.startswith("space me/ml_bench is new\n")
    assert list(hub.repos) == [("spaces", "me/ml_bench")]


def test_yes_publishes_data_set_and_space_in_a_commit_each(hub: FakeHub, client: ClientProcess, built: Path) -> None:
    status, output, _ = client.run(hub_command, "push", str(built), "--space", "--yes", token=WRITER)
    assert status == 0
    assert output.splitlines()[-2:] == [
        f"{hub.url}/datasets/me/ml-bench/commit/{hub.repos['datasets', 'me/ml-bench'].refs['main']}",
        f"{hub.url}/spaces/me/ml_bench/commit/{hub.repos['spaces', 'me/ml_bench'].refs['main']}",
    ]
    assert all(len(repo.commits) == 2 for repo in hub.repos.values())
    status, output, errors = client.run(hub_command, "push", str(built), "--space", "--yes", token=WRITER)
    assert (status, errors) == (0, "")
    assert output == "dataset me/ml-bench is up to date\nspace me/ml_bench is up to date\n"


def test_changes_are_shown_with_both_sizes(hub: FakeHub, client: ClientProcess, built: Path) -> None:
    assert client.run(hub_command, "push", str(built), "--yes", "--private", token=WRITER)[0] == 0
    repo = hub.repos["datasets", "me/ml-bench"]
    assert repo.private
    repo.commit({**repo.files, MANIFEST: repo.files[MANIFEST].replace(b"me", b"me", 1), "LICENSE": b"x"}, "by hand")
    output = client.run(hub_command, "push", str(built), "--overwrite", token=WRITER)[1]
    size = (built / "LICENSE").stat().st_size
    assert output == f"dataset me/ml-bench has 1 files to change\n  ~ LICENSE  1 bytes -> {size:,} bytes\n"


def test_a_folder_with_problems_is_not_pushed(hub: FakeHub, client: ClientProcess, built: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    for name in ("README.md", MANIFEST):
        (tmp_path / "copy" / name).write_bytes((built / name).read_bytes())
    status, _, errors = client.run(hub_command, "push", str(tmp_path / "copy"), "--yes", token=WRITER)
    assert status == 2 and "has problems, see `ml-bench hub check`; the first: " in errors
    assert not hub.repos


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"), half_passing())


def test_results_are_yaml_on_standard_output_alone(run: Path) -> None:
    status, output, errors = hub_command("results", str(run), "--k", "5", "--dataset", "me/ml-bench")
    assert status == 0 and "--push MODEL_ID writes it there" in errors
    (entry,) = yaml.safe_load(output)
    assert entry["dataset"] == {"id": "me/ml-bench", "task_id": "ml_bench_l_original_pass_5"}
    assert entry["value"] == 50.0


def test_results_of_stand_ins_are_shown_only_where_asked_for(tmp_path: Path) -> None:
    results = half_passing()
    results[0] = result(results[0].task_id, 0, execution(assets="stand_in"))
    run = str(make_run(tmp_path, results))
    status, output, errors = hub_command("results", run)
    assert (status, output) == (2, "") and "--without-real-assets" in errors
    status, output, _ = hub_command("results", run, "--without-real-assets")
    assert status == 0 and "stand-ins for weights and data in 1 of 1300 executions" in " ".join(output.split())


def test_results_are_pushed_into_a_models_repository(hub: FakeHub, client: ClientProcess, run: Path) -> None:
    hub.create("models", "me/model")
    status, output, errors = client.run(hub_command, "results", str(run), "--push", "me/model", token=WRITER)
    repo = hub.repos["models", "me/model"]
    assert (status, errors) == (0, f"{hub.url}/me/model/commit/{repo.refs['main']}\n")
    assert repo.files[".eval_results/ml-bench.yaml"].decode() == output


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from ml_bench_cli.hub import app; "
        "print(CliRunner().invoke(app, ['--help']).output); "
        "print([name for name in ('datasets', 'huggingface_hub', 'pyarrow', 'pydantic') if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert all(command in ran.stdout for command in ("build", "check", "push", "results"))
    assert ran.stdout.splitlines()[-1] == "[]"
