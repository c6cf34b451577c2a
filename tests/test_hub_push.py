"""A push shows what it would do, does it in one commit, and never loses what others have put on the Hub."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ml_bench_hub.build import build_dataset
from ml_bench_hub.client import connect
from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import MANIFEST, read_manifest
from ml_bench_hub.harbor import build_harbor
from ml_bench_hub.push import Plan, plan_push, push
from ml_bench_hub.space import SPACE_FILES, build_space, space_sdk
from tests.fakehub import READER, WRITER, FakeHub, Kind
from tests.hf_caches import ROOT, task_rows, write_source
from tests.hub_process import ClientProcess, client_process, empty_hub

OURS: tuple[Kind, str] = ("datasets", "me/ml-bench")


@pytest.fixture
def hub() -> FakeHub:
    return empty_hub()


@pytest.fixture(scope="module")
def client() -> ClientProcess:
    return client_process()


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two builds: the second has other rows in split A, and no eval.yaml."""
    folder = tmp_path_factory.mktemp("builds")
    first = write_source(folder / "source-1", task_rows(3), task_rows(1))
    second = write_source(folder / "source-2", task_rows(3), task_rows(2))
    build_dataset(folder / "first", source=str(first), namespace="me")
    build_dataset(folder / "second", source=str(second), namespace="me", eval_yaml=False)
    return folder / "first", folder / "second"


# What runs in the process of the client.


def planned(folder: Path, token: str | None = WRITER, endpoint: str | None = None, **options: Any) -> Plan:
    from huggingface_hub import HfApi

    return plan_push(HfApi(endpoint=endpoint, token=token), folder, **options)


def pushed(folder: Path, token: str | None = WRITER, **options: Any) -> str:
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    private = options.pop("private", False)
    return push(api, plan_push(api, folder, **options), private=private)


def pushed_plan(plan: Plan, token: str | None = WRITER) -> str:
    from huggingface_hub import HfApi

    return push(HfApi(token=token), plan)


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def on(hub: FakeHub, kind: Any = "datasets", repo_id: str = "me/ml-bench") -> dict[str, bytes]:
    return {name: content for name, content in hub.repos[kind, repo_id].files.items() if name != ".gitattributes"}


# ---------------------------------------------------------------- what it does


def test_a_plan_writes_nothing(hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]) -> None:
    plan = client.run(planned, versions[0])
    assert plan.creates and (plan.repo_type, plan.repo_id) == ("dataset", "me/ml-bench")
    assert {change.path for change in plan.changes} == content_of(versions[0]).keys()
    assert {change.kind for change in plan.changes} == {"added"}
    sizes = {change.path: change.after for change in plan.changes}
    assert sizes == {name: len(content) for name, content in content_of(versions[0]).items()}
    assert {call.method for call in hub.calls} <= {"GET", "HEAD"} and not hub.repos


def test_a_push_is_one_commit_with_the_folders_bytes(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    address = client.run(pushed, versions[0])
    repo = hub.repos[OURS]
    assert on(hub) == content_of(versions[0])
    assert len(repo.commits) == 2 and address.endswith(f"/commit/{repo.refs['main']}")
    assert not repo.private
    assert client.run(planned, versions[0]).changes == ()


def test_a_second_push_sends_the_differences_and_leaves_others_files_alone(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    client.run(pushed, versions[0])
    repo = hub.repos[OURS]
    repo.commit({**repo.files, "notes.md": b"by hand", "data/mine.parquet": b"PAR1"}, "by hand")
    plan = client.run(planned, versions[1])
    before, after = content_of(versions[0]), content_of(versions[1])
    wanted = {name: "changed" for name in before.keys() & after.keys() if before[name] != after[name]}
    assert {change.path: change.kind for change in plan.changes} == {**wanted, "eval.yaml": "removed"}
    (readme,) = [change for change in plan.changes if change.path == "README.md"]
    assert (readme.before, readme.after) == (len(before["README.md"]), len(after["README.md"]))
    commits = len(repo.commits)
    client.run(pushed_plan, plan)
    assert on(hub) == {**after, "notes.md": b"by hand", "data/mine.parquet": b"PAR1"}
    assert len(repo.commits) == commits + 1


def test_a_private_repository(hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]) -> None:
    client.run(pushed, versions[0], private=True)
    assert hub.repos[OURS].private


def test_load_dataset_reads_what_was_pushed(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path], tmp_path: Path
) -> None:
    client.run(pushed, versions[0])
    assert client.run(_loaded, tmp_path) == {"L": 3, "A": 1, "streamed": 3}


def _loaded(cache: Path) -> dict[str, int]:
    import datasets

    loaded = datasets.load_dataset("me/ml-bench", cache_dir=str(cache))
    streamed = datasets.load_dataset("me/ml-bench", "ML-Bench-L", split="full", streaming=True)
    return {**{name: rows.num_rows for name, rows in loaded.items()}, "streamed": len(list(streamed))}


def test_harbor_tasks_are_a_data_set_of_their_own(hub: FakeHub, client: ClientProcess, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", task_rows(2), task_rows(2))
    build_harbor(tmp_path / "harbor", source=str(source), namespace="me")
    client.run(pushed, tmp_path / "harbor")
    assert on(hub, "datasets", "me/ml-bench-a-harbor") == content_of(tmp_path / "harbor")
    assert client.run(_tasks) == 2


def _tasks() -> int:
    import datasets

    return len(list(datasets.load_dataset("me/ml-bench-a-harbor", split="test", streaming=True)))


# ---------------------------------------------------------------- what it leaves alone


def test_an_edit_on_the_hub_is_not_overwritten_unasked(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    client.run(pushed, versions[0])
    repo = hub.repos[OURS]
    repo.commit({**repo.files, "README.md": b"---\nlicense: mit\n---\nby hand"}, "by hand")
    with pytest.raises(HubError, match=r"README\.md on the Hub is not what ml-bench wrote there.*--overwrite"):
        client.run(planned, versions[1])
    client.run(pushed, versions[1], overwrite=True)
    assert on(hub) == content_of(versions[1])


def test_a_file_that_is_no_more_but_was_edited_on_the_hub_stays(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    client.run(pushed, versions[0])
    repo = hub.repos[OURS]
    repo.commit({**repo.files, "eval.yaml": b"name: mine"}, "by hand")
    plan = client.run(planned, versions[1])
    assert plan.kept == ("eval.yaml",)
    client.run(pushed_plan, plan)
    assert on(hub)["eval.yaml"] == b"name: mine"


def test_a_file_that_somebody_has_removed_is_put_back_and_one_that_was_to_go_is_no_error(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    client.run(pushed, versions[0])
    repo = hub.repos[OURS]
    kept = {name: content for name, content in repo.files.items() if name not in ("LICENSE", "eval.yaml")}
    repo.commit(kept, "by hand")
    client.run(pushed, versions[1])
    assert on(hub) == content_of(versions[1])


def test_a_repository_of_somebody_else_is_left_alone(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    hub.create("datasets", "me/ml-bench", {"README.md": b"mine", "data.csv": b"a"})
    with pytest.raises(HubError, match=r"exists, and ml-bench did not make it: it holds README\.md, data\.csv"):
        client.run(planned, versions[0])
    client.run(pushed, versions[0], overwrite=True)
    assert on(hub) == {**content_of(versions[0]), "data.csv": b"a"}


def test_an_empty_repository_is_nobodys(hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]) -> None:
    hub.create("datasets", "me/ml-bench")
    client.run(pushed, versions[0])
    assert on(hub) == content_of(versions[0])


def test_a_repository_of_another_kind_or_with_a_broken_manifest_is_refused(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path], tmp_path: Path
) -> None:
    hub.create("datasets", "me/ml-bench", {MANIFEST: b"{}"})
    with pytest.raises(HubError, match=r"dataset me/ml-bench: \.ml-bench\.json is no manifest"):
        client.run(planned, versions[0])
    manifest = read_manifest(versions[0]).model_copy(update={"kind": "harbor"})
    hub.create("datasets", "me/ml-bench", {MANIFEST: manifest.to_bytes()})
    with pytest.raises(HubError, match="holds a harbor, and the folder a dataset"):
        client.run(planned, versions[0])


# ---------------------------------------------------------------- folders that are not to be pushed


def test_an_edited_folder_is_refused(client: ClientProcess, versions: tuple[Path, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(versions[0], tmp_path / "copy"))
    (copy / "README.md").write_text("edited")
    with pytest.raises(HubError, match=r"README\.md was changed after the build; build it again"):
        client.run(planned, copy)


def test_a_folder_is_pushed_where_its_readme_says(
    client: ClientProcess, versions: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(HubError, match=r"built for 'me'.*--namespace other"):
        client.run(planned, versions[0], namespace="other")
    source = write_source(tmp_path / "source", task_rows(1), task_rows(1))
    build_dataset(tmp_path / "out", source=str(source))
    with pytest.raises(HubError, match=r"built for no namespace.*--namespace me"):
        client.run(planned, tmp_path / "out", namespace="me")


def test_the_sample_is_no_benchmark_to_publish(client: ClientProcess, tmp_path: Path) -> None:
    build_dataset(tmp_path / "out", source="sample", namespace="me")
    with pytest.raises(HubError, match="built from the sample"):
        client.run(planned, tmp_path / "out")


# ---------------------------------------------------------------- errors


def one_line(error: pytest.ExceptionInfo[HubError]) -> bool:
    return "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (None, "there is no token to write to the Hub with"),
        ("hf_wrong", r"does not accept the token.*\(401\)"),
        (READER, r"the token may not do that.*\(403\)"),
    ],
)
def test_tokens_that_may_not_write(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path], token: str | None, reason: str
) -> None:
    with pytest.raises(HubError, match=reason) as error:
        client.run(pushed, versions[0], token)
    assert one_line(error) and not hub.repos


def test_a_namespace_of_somebody_else(hub: FakeHub, client: ClientProcess, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", task_rows(1), task_rows(1))
    build_dataset(tmp_path / "out", source=str(source), namespace="stranger")
    with pytest.raises(HubError, match=r"dataset stranger/ml-bench: the token may not do that.*\(403\)") as error:
        client.run(pushed, tmp_path / "out")
    assert one_line(error) and not hub.repos


def test_a_commit_between_plan_and_push_is_not_lost(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    client.run(pushed, versions[0])
    plan = client.run(planned, versions[1])
    repo = hub.repos[OURS]
    repo.commit({**repo.files, "notes.md": b"by hand"}, "by hand")
    with pytest.raises(HubError, match=r"has changed since it was read.*\(412\)") as error:
        client.run(pushed_plan, plan)
    assert one_line(error)
    assert on(hub) == {**content_of(versions[0]), "notes.md": b"by hand"}


def test_a_repository_that_was_made_between_plan_and_push(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    plan = client.run(planned, versions[0])
    hub.create("datasets", "me/ml-bench", {"README.md": b"mine"})
    with pytest.raises(HubError, match=r"\(409\)") as error:
        client.run(pushed_plan, plan)
    assert one_line(error) and on(hub) == {"README.md": b"mine"}


@pytest.mark.parametrize(
    ("method", "path", "status", "message", "reason"),
    [
        ("GET", "/api/datasets", 500, "", r"the Hub has a problem of its own \(500\)"),
        ("POST", "/commit/", 404, "gone", r"no such thing on the Hub \(404\) \(gone\)"),
        ("POST", "/commit/", 409, "busy", r"\(409\) \(busy\)"),
        ("POST", "/commit/", 413, "", r"too large for the Hub \(413\)"),
        ("POST", "/commit/", 400, "eval.yaml: unknown framework", r"refuses it \(400\): eval\.yaml: unknown framework"),
        ("POST", "/create", 402, "pay\nfirst", r"refuses it \(402\): pay first"),
        ("POST", "/commit/", 403, "quota", r"\(403\) \(quota\)"),
    ],
)
def test_what_the_hub_answers_is_one_line(
    hub: FakeHub,
    client: ClientProcess,
    versions: tuple[Path, Path],
    method: str,
    path: str,
    status: int,
    message: str,
    reason: str,
) -> None:
    hub.fail(method, path, status, message.replace("\n", " "))
    with pytest.raises(HubError, match=reason) as error:
        client.run(pushed, versions[0])
    assert one_line(error) and str(error.value).startswith("dataset me/ml-bench: ")


def test_a_push_that_failed_after_the_repository_was_made_can_be_run_again(
    hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]
) -> None:
    hub.fail("POST", "/commit/", 403)
    with pytest.raises(HubError):
        client.run(pushed, versions[0])
    client.run(pushed, versions[0])
    assert on(hub) == content_of(versions[0])


def test_metadata_that_the_hub_refuses(hub: FakeHub, client: ClientProcess, versions: tuple[Path, Path]) -> None:
    hub.fail("POST", "/api/validate-yaml", 400)
    with pytest.raises(HubError, match=r"Invalid metadata in README\.md") as error:
        client.run(pushed, versions[0])
    assert one_line(error)


def test_no_network(client: ClientProcess, versions: tuple[Path, Path]) -> None:
    with pytest.raises(HubError, match="the Hub cannot be reached") as error:
        client.run(planned, versions[0], WRITER, "http://127.0.0.1:9")
    assert one_line(error)


def test_offline_mode_is_named(versions: tuple[Path, Path]) -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set") as error:
        plan_push(connect(), versions[0])
    assert one_line(error)


# ---------------------------------------------------------------- the Space


@pytest.fixture
def space(tmp_path: Path) -> Path:
    build_space(tmp_path / "space", "me")
    return tmp_path / "space"


def test_the_space_has_the_metrics_files_and_no_other(space: Path) -> None:
    files = content_of(space).keys() - {MANIFEST}
    assert files >= set(SPACE_FILES)
    assert all(name in SPACE_FILES or name.startswith("space/") for name in files)
    assert (space / "ml_bench.py").read_bytes() == (ROOT / "ml_bench_metric" / "ml_bench.py").read_bytes()
    assert space_sdk(space) == "static"


def test_everything_that_the_page_loads_is_in_the_space(space: Path) -> None:
    names = content_of(space)
    for name, content in names.items():
        if name.endswith((".html", ".js", ".css")):
            text = content.decode()
            wanted = re.findall(r"""(?:src|href)=["']([^"'#:]+)["']|(?:from|import) ["'](\.[^"']+)["']""", text)
            for path in (first or second for first, second in wanted):
                assert os.path.normpath(f"{Path(name).parent}/{path}") in names, f"{name} loads {path}"


def test_the_space_is_made_with_its_sdk_and_evaluate_loads_from_it(
    hub: FakeHub, client: ClientProcess, space: Path
) -> None:
    client.run(pushed, space, space_sdk=space_sdk(space))
    assert on(hub, "spaces", "me/ml_bench") == content_of(space)
    assert hub.repos["spaces", "me/ml_bench"].sdk == "static"
    assert client.run(_metric) == "ml_bench"


def _metric() -> str:
    import evaluate

    return str(evaluate.load("me/ml_bench").name)


def test_a_space_without_its_card_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ml_bench_hub import space

    monkeypatch.setattr(space, "SPACE_FILES", ("nothing.md",))
    with pytest.raises(HubError, match=r"lacks what its Space needs.*nothing\.md"):
        build_space(tmp_path / "space", "me")
    assert not (tmp_path / "space").exists()


@pytest.mark.parametrize("text", ["---\ntitle: x\n---\n", "---\nsdk: 3\n---\n"])
def test_a_space_without_an_sdk_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(HubError, match="no `sdk`"):
        space_sdk(tmp_path)
