"""`ml-bench agent --agent react` works, judges, goes on and exports; options that make no sense are refused at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ml_bench_cli.main import app
from ml_bench_metric.agent_scripts import reference_script
from ml_bench_metric.tasks import load_tasks
from tests.agent_fakes import call, calling
from tests.model_server import Json, ModelServer, completion
from tests.test_agents_atif import check


def answers(request: Json) -> Json:
    """Look around, write the reference, and end: by calls of tools or by blocks, as one is asked."""
    said = sum(message["role"] == "assistant" for message in request["messages"])
    asked = request["messages"][1]["content"]
    task = next(task for task in load_tasks("sample", "A").tasks if task.instruction.strip() in asked)
    script = reference_script(task)
    if "tools" not in request:
        blocks = ("```bash\nls\n```", f"````write run.sh\n{script}\n````", "```submit\n```")
        return completion(blocks[min(said, 2)])
    write = call("write_file", json.dumps({"path": "run.sh", "content": script}))
    return calling((call("bash", '{"command": "ls"}'), write, call("submit", "{}"))[min(said, 2)])


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["agent", "--agent", "react", "--tasks", "sample", *arguments])


@pytest.mark.docker
@pytest.mark.parametrize("protocol", ["tools", "text"])
def test_a_model_works_is_judged_gone_on_with_and_exported(sample_image: str, tmp_path: Path, protocol: str) -> None:
    prices, run = tmp_path / "prices.yaml", tmp_path / "run"
    prices.write_text("m: {input: 10, output: 10}")
    with ModelServer(answers) as server:
        words = ["--model", "m", "--base-url", server.url, "--repositories", "tiny-text", "--out", str(run), "--quiet"]
        words += ["--protocol", protocol, "--prices", str(prices), "--max-total-cost", "5", "--skip-checks", "--json"]
        words += ["--image", sample_image, "--oversubscribe"]
        done = invoke(*words)
        assert done.exit_code == 0, done.output
        asked = len(server.requests)
        assert invoke(*words).exit_code == 0 and len(server.requests) == asked == 6
        other = invoke(*words, "--temperature", "0.1")
        assert other.exit_code != 0 and len(server.requests) == asked, other.output
    assert len((run / "requests.jsonl").read_text().splitlines()) == asked
    exported = tmp_path / "all.jsonl"
    told = CliRunner().invoke(app, ["export-trajectories", str(run), "--out", str(exported)])
    assert told.exit_code == 0, told.output
    found = [json.loads(line) for line in exported.read_text().splitlines()]
    assert len(found) == 2
    for trajectory in found:
        check(trajectory)
        assert trajectory["agent"]["name"] == "react:m"
        assert trajectory["final_metrics"]["total_prompt_tokens"] == 30
        assert trajectory["final_metrics"]["total_cost_usd"] == pytest.approx(45e-5)
        assert [one["passed"] for one in trajectory["extra"]["verdicts"].values()] == [True, True]
    folder = tmp_path / "each"
    assert CliRunner().invoke(app, ["export-trajectories", str(run), "--out", str(folder)]).exit_code == 0
    names = {str(path.relative_to(folder)) for path in folder.rglob("*.json")}
    assert names == {"tiny-text/26/0/trajectory.json", "tiny-text/30/0/trajectory.json"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--model"),
        (["--model", "m", "--command", "x"], "--agent command"),
        (["--model", "m", "--base-url", "nonsense"], "no URL"),
        (["--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--max-cost", "1"], "need --prices"),
        (["--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--extra", '{"tools": []}'], "cannot set 'tools'"),
        (["--model", "m", "--base-url", "http://127.0.0.1:1/v1", "--top-p", "7"], "--top-p"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, words: list[str], said: str) -> None:
    done = invoke("--out", str(tmp_path / "run"), *words)
    assert done.exit_code != 0 and not (tmp_path / "run").exists()
    assert said in " ".join((done.output + str(done.exception)).replace("│", " ").split())


def test_a_model_is_for_react_alone(tmp_path: Path) -> None:
    words = ["agent", "--agent", "nop", "--tasks", "sample", "--out", str(tmp_path / "run"), "--model", "m"]
    assert CliRunner().invoke(app, words).exit_code != 0


def test_a_run_without_agents_has_nothing_to_export(tmp_path: Path) -> None:
    from ml_bench_metric.store import RunFolder

    with RunFolder(tmp_path / "run", {}, {}):
        pass
    told = CliRunner().invoke(app, ["export-trajectories", str(tmp_path / "run"), "--out", str(tmp_path / "x.jsonl")])
    assert told.exit_code != 0 and "no attempt of an agent" in str(told.output) + str(told.exception)
    assert not (tmp_path / "x.jsonl").exists()
