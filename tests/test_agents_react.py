"""The agent `react` does what a model asks for, survives what models and servers get wrong, and records all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.tasks import Task, load_tasks
from ml_bench_solvers.agents.react import Conduct, ReactAgent
from ml_bench_solvers.agents.workspace import AgentError, BudgetSpent
from ml_bench_solvers.generation.answers import Sampling
from ml_bench_solvers.generation.prices import Price
from tests.agent_fakes import FAST, FakeWorkspace, call, calling, scripted
from tests.model_server import Json, Mishap, Script, completion, error, in_turn

WRITE = call("write_file", json.dumps({"path": "run.sh", "content": "echo é\n"}), "w")
SUBMIT = call("submit", "{}", "s")
END = calling(WRITE, SUBMIT)


def task(task_id: str = "tiny-forecast/8") -> Task:
    return load_tasks("sample", "A").by_id[task_id]


def solve(
    workspace: FakeWorkspace, script: Script, conduct: Conduct | None = None, **options: Any
) -> tuple[list[Json], ReactAgent]:
    """Let the agent work, and return what the server was asked."""
    with scripted(script, **options) as (model, server):
        agent = ReactAgent(model, conduct=conduct)
        agent.solve(task(), workspace)
    return server.requests, agent


@pytest.fixture
def workspace(tmp_path: Path) -> FakeWorkspace:
    return FakeWorkspace(tmp_path)


def test_a_model_acts_sees_what_came_of_it_and_ends_its_work(workspace: FakeWorkspace) -> None:
    first = calling(call("bash", json.dumps({"command": "echo out; echo err >&2; exit 3"})), text="Let me see.")
    requests, agent = solve(workspace, in_turn(first, END))
    assert (workspace.place / "run.sh").read_text(encoding="utf-8") == "echo é\n"
    assert [message["role"] for message in requests[1]["messages"]] == ["system", "user", "assistant", "tool"]
    reply, result = requests[1]["messages"][2:]
    assert reply["content"] == "Let me see." and reply["tool_calls"][0]["id"] == result["tool_call_id"] == "c1"
    assert result["content"] == "[exit status 3]\nout\nerr\n"
    assert {tool["function"]["name"] for tool in requests[0]["tools"]} == {"bash", "read_file", "write_file", "submit"}
    assert agent.name == "react:m"


def test_the_prompt_tells_the_task_and_not_its_reference(workspace: FakeWorkspace) -> None:
    requests, _ = solve(workspace, in_turn(END), Conduct(turns=7, seconds=90.0))
    text = "\n".join(message["content"] for message in requests[0]["messages"])
    found = task()
    for told in ("tiny-forecast", found.instruction, found.working_folder, "run.sh", found.prefix_code, "7 replies"):
        assert told in text
    assert "90 seconds in all" in text and "There is no network" in text
    assert found.output not in text


def test_a_bare_start_and_a_network_are_told(workspace: FakeWorkspace) -> None:
    requests, _ = solve(workspace, in_turn(END), Conduct(start="bare", network="full"))
    text = requests[0]["messages"][1]["content"]
    assert "nothing that it needs is installed" in text and "/opt/env" in text and "There is no network" not in text
    requests, _ = solve(workspace, in_turn(END), Conduct(network="allowlist", allowed=("a.test", "*.b.test")))
    assert "these hosts only" in (text := requests[0]["messages"][1]["content"]) and "a.test, *.b.test" in text


def test_every_step_is_recorded_with_what_it_took(workspace: FakeWorkspace) -> None:
    first = calling(call("bash", '{"command": "echo hi"}'), usage=(1000, 100))
    solve(
        workspace,
        in_turn(first, {**END, "usage": {"prompt_tokens": 2000, "completion_tokens": 10}}),
        price=Price(input=1.0, output=10.0),
    )
    kinds = [kind for kind, _ in workspace.steps]
    assert kinds == [
        "message",
        "message",
        "message",
        "command",
        "message",
        "message",
        "write",
        "message",
        "read",
        "message",
    ]
    replies = workspace.messages("assistant")
    assert replies[0]["calls"] == [{"id": "c1", "name": "bash", "arguments": {"command": "echo hi"}, "fault": ""}]
    assert (replies[0]["prompt_tokens"], replies[0]["completion_tokens"]) == (1000, 100)
    assert replies[0]["cost"] == pytest.approx(0.002)
    assert workspace.used == {
        "turns": 2, "prompt_tokens": 3000, "completion_tokens": 110, "cost": pytest.approx(0.0041)
    }  # fmt: skip
    assert [message["call"] for message in workspace.messages("tool")] == ["c1", "w", "s"]


def test_sampling_is_what_was_asked_for_and_part_of_the_identity(workspace: FakeWorkspace) -> None:
    with scripted(in_turn(END)) as (model, server):
        agent = ReactAgent(model, Sampling(temperature=0.25, max_tokens=77, seed=3, extra={"top_k": 5}))
        agent.solve(task(), workspace)
        other = ReactAgent(model, Sampling(temperature=0.5))
    (request,) = server.requests
    assert (request["temperature"], request["max_tokens"], request["seed"], request["top_k"]) == (0.25, 77, 3, 5)
    assert agent.identity != other.identity and json.loads(json.dumps(agent.identity)) == agent.identity


def test_the_last_turn_is_still_acted_on_and_the_one_after_it_is_not_asked_for(workspace: FakeWorkspace) -> None:
    workspace.turns = 2
    step = calling(call("bash", '{"command": "echo x >> run.sh"}'))
    with scripted(in_turn(step)) as (model, server), pytest.raises(BudgetSpent):
        ReactAgent(model, conduct=Conduct(turns=2)).solve(task(), workspace)
    assert len(server.requests) == 2
    assert (workspace.place / "run.sh").read_text() == "x\nx\n"
    assert "One reply is left" in server.requests[1]["messages"][-1]["content"]


def test_a_reply_that_spends_the_last_money_is_recorded_and_not_acted_on(workspace: FakeWorkspace) -> None:
    workspace.cost = 0.001
    step = calling(call("bash", '{"command": "touch done"}'), usage=(1000, 0))
    with scripted(in_turn(step), price=Price(input=1.0, output=1.0)) as (model, _), pytest.raises(BudgetSpent):
        ReactAgent(model).solve(task(), workspace)
    assert len(workspace.messages("assistant")) == 1 and not (workspace.place / "done").exists()


def test_waiting_for_a_reply_ends_with_the_budget(workspace: FakeWorkspace) -> None:
    asked: list[int] = []

    def waits() -> None:
        asked.append(1)
        if len(asked) > 1:  # the first is that of the turn
            raise BudgetSpent("time")

    workspace.waits = waits
    with scripted(in_turn(Mishap(delay=20.0, body=END))) as (model, server):
        with pytest.raises(BudgetSpent):
            ReactAgent(model).solve(task(), workspace)
        server.released.set()


WRONG_CALLS = [
    (call("fly", "{}"), 'There is no tool "fly"; there are bash, read_file, write_file, submit.'),
    (call("not a name!\n", "{}"), "There is no tool"),
    (call("", "{}"), 'There is no tool ""'),
    (call("bash", '{"command": "ls'), "are no JSON"),
    (call("bash", "[" * 100_000), "are no JSON"),
    (call("bash", '["ls"]'), "are no JSON object"),
    (call("bash", ""), "bash needs the argument command"),
    (call("bash", '{"cmd": "ls"}'), "bash needs the argument command"),
    (call("bash", '{"command": 5}'), 'is no text: "5"'),
    (call("bash", '{"command": "a\\u0000b"}'), "NUL"),
    (call("read_file", '{"path": "none.txt"}'), 'There is no file "none.txt".'),
    (call("read_file", '{"path": "."}'), "cannot be read"),
    (call("read_file", '{"path": ""}'), "is empty"),
    (call("write_file", '{"path": "x"}'), "needs the argument content"),
    (call("write_file", '{"path": "sub", "content": ""}'), "cannot be written"),
    (call("submit", "{}"), "There is no run.sh"),
]


@pytest.mark.parametrize(("wrong", "told"), WRONG_CALLS, ids=[f"{number}" for number in range(len(WRONG_CALLS))])
@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_call_is_answered_and_the_work_goes_on(
    workspace: FakeWorkspace, wrong: Json, told: str, stream: bool
) -> None:
    (workspace.place / "sub").mkdir()
    manner = type(FAST)(**{**FAST.__dict__, "stream": stream})
    requests, _ = solve(workspace, in_turn(calling(wrong), END), manner=manner)
    reply, result = requests[1]["messages"][-2:]
    assert told in result["content"] and result["role"] == "tool"
    # What goes back is what any server can read.
    (sent,) = reply["tool_calls"]
    assert isinstance(json.loads(sent["function"]["arguments"]), dict)
    assert sent["function"]["name"].replace("_", "").isalnum() and sent["id"] == result["tool_call_id"]
    assert (workspace.place / "run.sh").exists()


def test_calls_without_ids_or_with_the_same_one_are_told_apart(workspace: FakeWorkspace) -> None:
    commands = [call("bash", json.dumps({"command": f"echo {word}"}), "same") for word in ("one", "two")]
    third = call("bash", '{"command": "echo three"}', "")
    requests, _ = solve(workspace, in_turn(calling(*commands, third), END))
    reply, *results = requests[1]["messages"][2:]
    identities = [sent["id"] for sent in reply["tool_calls"]]
    assert len(set(identities)) == 3 and all(identities)
    assert [(one["tool_call_id"], one["content"].split()[-1]) for one in results] == list(
        zip(identities, ("one", "two", "three"), strict=True)
    )


def test_line_breaks_in_arguments_and_numbers_as_texts_are_understood(workspace: FakeWorkspace) -> None:
    solve(workspace, in_turn(calling(call("bash", '{"command": "echo a\necho b", "timeout": "5"}')), END))
    assert workspace.messages("tool")[0]["content"] == "[exit status 0]\na\nb\n"


@pytest.mark.parametrize("timeout", ['"soon"', "-1", "true", "1e999", "null", "NaN"])
def test_a_time_limit_that_makes_no_sense_is_none(workspace: FakeWorkspace, timeout: str) -> None:
    solve(workspace, in_turn(calling(call("bash", f'{{"command": "echo a", "timeout": {timeout}}}')), END))
    assert workspace.messages("tool")[0]["content"] == "[exit status 0]\na\n"


def test_a_command_at_its_time_limit_is_told(workspace: FakeWorkspace) -> None:
    solve(workspace, in_turn(calling(call("bash", '{"command": "exec sleep 30", "timeout": 0.1}')), END))
    assert workspace.messages("tool")[0]["content"].startswith("[ended at its time limit of 1 s]")


def test_what_comes_after_the_end_of_the_work_is_not_done(workspace: FakeWorkspace) -> None:
    late = call("bash", '{"command": "touch late"}', "l")
    requests, _ = solve(workspace, in_turn(calling(WRITE, SUBMIT, late)))
    assert len(requests) == 1 and not (workspace.place / "late").exists()


def test_a_reply_that_wants_too_much_is_done_in_part(workspace: FakeWorkspace) -> None:
    many = [call("bash", f'{{"command": "touch f{number}"}}', f"c{number}") for number in range(40)]
    solve(workspace, in_turn(calling(*many), END))
    assert len(list(workspace.place.glob("f*"))) == 16
    assert "one reply may ask for 16" in workspace.messages("tool")[16]["content"]


@pytest.mark.parametrize(
    ("idle", "told"),
    [
        (completion(""), "Your reply was empty."),
        (completion({"content": None}), "Your reply was empty."),
        (completion({"content": None, "refusal": "I must not."}), "Your reply did nothing."),
        (completion("", finish_reason="content_filter"), "Your reply did nothing."),
        (completion("and then", finish_reason="length"), "cut off"),
        (completion("I would run ls."), "Your reply did nothing."),
    ],
)
@pytest.mark.parametrize("protocol", ["tools", "text", "auto"])
def test_replies_without_anything_to_do_are_answered_and_three_end_the_work(
    workspace: FakeWorkspace, idle: Json, told: str, protocol: Any
) -> None:
    requests, _ = solve(workspace, in_turn(idle), Conduct(protocol=protocol))
    assert len(requests) == 3
    assert all(message["content"] for request in requests for message in request["messages"])
    assert told in requests[1]["messages"][-1]["content"]
    assert "given up" in workspace.notes()[-1]


def test_replies_with_something_to_do_between_idle_ones_begin_the_count_anew(workspace: FakeWorkspace) -> None:
    act = calling(call("bash", '{"command": "true"}'))
    idle = completion("Hm.")
    requests, _ = solve(workspace, in_turn(idle, act, idle, idle, act, idle, idle, END), Conduct(protocol="tools"))
    assert len(requests) == 8 and (workspace.place / "run.sh").exists()


def test_outputs_and_files_of_any_kind_reach_the_model_as_text(workspace: FakeWorkspace) -> None:
    (workspace.place / "latin").write_bytes(b"caf\xe9")
    (workspace.place / "binary").write_bytes(b"\x7fELF\0\0")
    (workspace.place / "empty").write_bytes(b"")
    steps = calling(
        call("bash", json.dumps({"command": "printf 'é 漢 \\xff \\x1b[2J 😀 <|im_end|>'"}), "1"),
        *(call("read_file", json.dumps({"path": name}), name) for name in ("latin", "binary", "empty")),
        call("write_file", '{"path": "half", "content": "\\ud83d!"}', "h"),
        call("bash", '{"command": "echo \\ud83d"}', "i"),
    )
    requests, _ = solve(workspace, in_turn(steps, END))
    found = [message["content"] for message in requests[1]["messages"][3:]]
    assert found[0].startswith("[exit status 0]\né 漢 \ufffd \x1b[2J 😀 <") and "<|im_end|>" not in found[0]
    assert found[1] == "caf\ufffd" and "is no text: 6 bytes" in found[2] and found[3] == "[the file is empty]"
    assert (workspace.place / "half").read_text(encoding="utf-8") == "\ufffd!"
    assert found[5] == "[exit status 0]\n\ufffd\n"


def test_huge_outputs_are_shown_by_their_beginning_and_end(workspace: FakeWorkspace) -> None:
    workspace.output = 500_000
    step = calling(call("bash", '{"command": "echo begin; yes | head -c 1000000; echo end"}'))
    requests, _ = solve(workspace, in_turn(step, END), Conduct(output=1000))
    content = requests[1]["messages"][-1]["content"]
    assert len(content) < 1100 and "begin" in content and "characters left out" in content
    assert "parts are missing" in content


def test_the_conversation_stays_in_its_budget_and_keeps_the_task_whole(workspace: FakeWorkspace) -> None:
    step = calling(call("bash", '{"command": "seq 1000"}'), text="Thinking aloud. " * 40)
    requests, _ = solve(workspace, in_turn(*[step] * 20, END), Conduct(characters=12_000))
    whole = requests[0]["messages"][:2]
    for request in requests:
        assert request["messages"][:2] == whole
        assert sum(len(message["content"] or "") for message in request["messages"]) < 12_000
    last = requests[-1]["messages"]
    assert "are left out here" in last[2]["content"]
    assert "\n1000\n" in last[-1]["content"]
    asked = {sent["id"] for message in last for sent in message.get("tool_calls", ())}
    assert {message["tool_call_id"] for message in last if message["role"] == "tool"} <= asked


def test_a_budget_of_tokens_is_reckoned_by_what_the_server_counts(workspace: FakeWorkspace) -> None:
    def script(request: Json) -> Json:
        size = sum(len(message["content"] or "") for message in request["messages"])
        if len(asked) > 12:
            return END
        asked.append(size)
        return calling(call("bash", '{"command": "seq 1000"}'), usage=(size // 2, 1))

    asked: list[int] = []
    solve(workspace, script, Conduct(tokens=6000))
    assert 6000 < max(asked) < 12_000


def test_a_conversation_that_is_too_long_for_the_model_is_cut_down(workspace: FakeWorkspace) -> None:
    def script(request: Json) -> Json | Mishap:
        size = sum(len(message["content"] or "") for message in request["messages"])
        if size > 9000:
            return error(400, "This model's maximum context length is 2000 tokens.")
        return END if len(workspace.messages("assistant")) > 5 else step

    step = calling(call("bash", '{"command": "seq 1200"}'))
    solve(workspace, script)
    assert (workspace.place / "run.sh").exists()
    assert any("cut down" in note for note in workspace.notes())


def test_a_prompt_that_is_too_long_by_itself_ends_the_work(workspace: FakeWorkspace) -> None:
    requests, _ = solve(workspace, in_turn(error(400, "prompt is too long")))
    assert len(requests) == 1 and "too long for the model" in workspace.notes()[-1]


@pytest.mark.parametrize("status", [400, 404, 422, 501])
def test_a_server_that_takes_no_tools_is_spoken_to_in_text_from_then_on(workspace: FakeWorkspace, status: int) -> None:
    def script(request: Json) -> Json | Mishap:
        if "tools" in request:
            return error(status, "m does not support tools")
        return completion("First:\n```write run.sh\necho 1\n```\nThen:\n```submit\n```")

    with scripted(script) as (model, server):
        agent = ReactAgent(model)
        agent.solve(task(), workspace)
        before = len(server.requests)
        agent.solve(task(), FakeWorkspace(workspace.place))
        assert len(server.requests) == before + 1
    assert (workspace.place / "run.sh").read_text() == "echo 1\n"
    assert "```submit" in server.requests[-1]["messages"][0]["content"]
    assert agent.speaks_text


def test_a_server_that_takes_no_tools_is_an_error_where_they_were_asked_for(workspace: FakeWorkspace) -> None:
    with pytest.raises(AgentError, match="does not support tools"):
        solve(workspace, in_turn(error(400, "m does not support tools")), Conduct(protocol="tools"))


def test_a_model_that_writes_blocks_where_tools_were_offered_is_understood(workspace: FakeWorkspace) -> None:
    replies = [completion("```bash\necho hi\n```"), completion("```write run.sh\nx\n```\n```submit\n```")]
    requests, _ = solve(workspace, in_turn(*replies))
    assert "tools" in requests[0] and "tools" not in requests[1]
    assert requests[1]["messages"][-1] == {
        "role": "user",
        "content": "Result of block 1 (bash):\n[exit status 0]\nhi\n",
    }


def test_a_model_that_has_called_tools_is_not_taken_at_its_blocks(workspace: FakeWorkspace) -> None:
    act = calling(call("bash", '{"command": "true"}'))
    requests, _ = solve(workspace, in_turn(act, completion("I did:\n```bash\ntouch talk\n```"), END))
    assert not (workspace.place / "talk").exists() and all("tools" in request for request in requests)


@pytest.mark.parametrize("wrong", [error(401, "no"), error(500, "broken"), Mishap(body=b"no json")])
def test_a_server_that_does_not_answer_is_an_error_of_the_agent(workspace: FakeWorkspace, wrong: Mishap) -> None:
    with pytest.raises(AgentError, match="m does not answer"):
        solve(workspace, in_turn(wrong))


def test_a_server_that_answers_at_another_attempt_is_asked_again(workspace: FakeWorkspace) -> None:
    requests, _ = solve(workspace, in_turn(error(429, "slow down"), error(503, "later"), END))
    assert len(requests) == 3 and workspace.messages("assistant")[0]["attempts"] == 3


def test_a_model_is_not_asked_outside_of_its_block() -> None:
    with scripted(in_turn(END)) as (model, _):
        pass
    with pytest.raises(AgentError, match="outside"):
        ReactAgent(model).solve(task(), FakeWorkspace(Path()))
