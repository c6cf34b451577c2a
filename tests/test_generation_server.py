"""Whatever a server does, no answer is lost, none is counted twice, and none is made up."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ml_bench_solvers.generation.answers import Sampling
from ml_bench_solvers.generation.errors import GenerationStopped
from ml_bench_solvers.generation.prices import Price
from tests.generation_builders import FAST, KEY, generate, logged, predictions, stored, texts, work
from tests.model_server import Json, Mishap, Serve, completion, error, events, in_turn

NASTY = "ls 'ä€𝄞'\n\t\"quoted\" \\ \x00 \u200b 한국어"

KEEP_GOING = replace(FAST, keep_going=True)


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_every_character_of_an_answer_arrives(serve: Serve, tmp_path: Path, streams: bool) -> None:
    server = serve(in_turn(completion(NASTY)))
    [answer] = generate(server, tmp_path, work(), replace(FAST, stream=streams))
    assert (answer.status, answer.text, answer.model) == ("ok", NASTY, "served-model")
    assert list(predictions(tmp_path).values()) == [[NASTY]]
    assert server.requests[0]["stream"] is streams


def test_what_is_sent_is_what_was_asked_for(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn(completion("ls")))
    sampling = Sampling(temperature=0.5, top_p=0.9, max_tokens=7, seed=3, stop=("\n\n",), extra={"min_p": 0.1})
    generate(server, tmp_path, work(sampling=sampling))
    [request] = server.requests
    [task_id] = predictions(tmp_path)
    assert request == {
        "model": "m",
        "messages": [{"role": "user", "content": task_id}],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 7,
        "seed": 3,
        "stop": ["\n\n"],
        "min_p": 0.1,
        "stream": False,
    }


def test_characters_split_between_packets_arrive_whole(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn(Mishap(body=completion("ä€𝄞" * 20), piece=3)))
    assert texts(generate(server, tmp_path, work(), replace(FAST, stream=True))) == ["ä€𝄞" * 20]
    assert len(server.requests) == 1


def test_halves_of_a_character_in_two_events_are_put_together(serve: Serve, tmp_path: Path) -> None:
    def event(text: str, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    server = serve(in_turn(Mishap(body=event("\ud834") + event("\udd1e", "stop") + b"data: [DONE]\n\n")))
    assert texts(generate(server, tmp_path, work(), replace(FAST, stream=True))) == ["𝄞"]


def test_half_a_surrogate_pair_can_be_stored(serve: Serve, tmp_path: Path, streams: bool) -> None:
    body = json.dumps({**completion(), "choices": [_choice("a\ud800b")]}).encode()
    if streams:
        chunk = {"choices": [{"index": 0, "delta": {"content": "a\ud800b"}, "finish_reason": "stop"}]}
        body = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    server = serve(in_turn(Mishap(body=body)))
    assert texts(generate(server, tmp_path, work(), replace(FAST, stream=streams))) == ["a\ufffdb"]
    assert list(predictions(tmp_path).values()) == [["a\ufffdb"]]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_a_line_separator_within_an_answer_does_not_cost_it(serve: Serve, tmp_path: Path, separator: str) -> None:
    """The library that reads streams takes it for the end of a line; so the answer is asked for in one piece."""
    server = serve(in_turn(completion(f"a{separator}b")))
    assert texts(generate(server, tmp_path, work(), replace(FAST, stream=True))) == [f"a{separator}b"]
    assert [request["stream"] for request in server.requests] == [True, True, False]


def _choice(text: str | None, finish: str | None = "stop", index: int = 0) -> Json:
    return {"index": index, "finish_reason": finish, "message": {"role": "assistant", "content": text}}


BROKEN: dict[str, Mishap] = {
    "429": error(429, "slow down"),
    "500": error(500, "oh no"),
    "503 as a page": Mishap(503, {"Content-Type": "text/html"}, b"<html>busy</html>"),
    "529": error(529, "overloaded"),
    "no JSON": Mishap(body=b"{not json"),
    "nothing": Mishap(body=b""),
    "not UTF-8": Mishap(body=b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "a list": Mishap(body=b"[1, 2]"),
    "a text": Mishap(body=b'"hello"'),
    "null": Mishap(body=b"null"),
    "no choices": Mishap(body={"id": "x", "model": "m"}),
    "empty choices": Mishap(body={**completion(), "choices": []}),
    "choices of another kind": Mishap(body=b'{"choices": "many"}'),
    "choices of texts": Mishap(body=b'{"choices": ["one"]}'),
    "choice without a message": Mishap(body=b'{"choices": [{"index": 0, "finish_reason": "stop"}]}'),
    "error with status 200": Mishap(body={"error": {"message": "upstream is down", "code": 502}}),
    "half a body": Mishap(body=json.dumps(completion("python train.py")).encode(), sends=40),
    "half a body without length": Mishap(body=json.dumps(completion("ls")).encode(), sends=40, says_length=False),
    "no body": Mishap(body=json.dumps(completion("ls")).encode(), sends=0),
    "half a stream": Mishap(body=events(completion("python train.py")), sends=250),
    "half a stream without length": Mishap(
        body=events(completion("python train.py")),
        sends=events(completion("python train.py")).find(b"stop") - 20,
        says_length=False,
    ),
    "error in a stream": Mishap(body=b'data: {"error": {"message": "engine died", "code": 500}}\n\n'),
    "event of another kind": Mishap(body=b"data: 7\n\n"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_answer_is_asked_for_again(serve: Serve, tmp_path: Path, streams: bool, kind: str) -> None:
    server = serve(in_turn(BROKEN[kind], completion("ls")))
    [answer] = generate(server, tmp_path, work(), replace(FAST, stream=streams))
    assert (answer.status, answer.text, answer.attempts) == ("ok", "ls", 2)
    assert len(server.requests) == 2
    outcomes = [line["outcome"] for line in logged(tmp_path)]
    assert len(outcomes) == 2 and outcomes[0] != "200" and outcomes[1] == "200"


@pytest.mark.parametrize("kind", BROKEN)
def test_what_never_answers_is_recorded_as_an_error(serve: Serve, tmp_path: Path, streams: bool, kind: str) -> None:
    server = serve(in_turn(BROKEN[kind]))
    [answer] = generate(server, tmp_path, work(), replace(KEEP_GOING, stream=streams))
    assert (answer.status, answer.text, answer.attempts) == ("error", "", 3)
    assert answer.error and len(server.requests) == 3


def test_a_silent_server_is_not_waited_for_longer_than_the_deadline(
    serve: Serve, tmp_path: Path, streams: bool
) -> None:
    body = events(completion("python train.py")) if streams else json.dumps(completion("ls")).encode()
    server = serve(in_turn(Mishap(body=body, sends=60, silent=True), completion("ls")))
    begun = time.monotonic()
    [answer] = generate(server, tmp_path, work(), replace(FAST, stream=streams, deadline=0.5))
    assert (answer.text, answer.attempts) == ("ls", 2)
    assert time.monotonic() - begun < 4
    assert logged(tmp_path)[0]["outcome"] == "timeout"


def test_a_stream_that_ends_behind_the_answer_is_whole(serve: Serve, tmp_path: Path) -> None:
    """A second request would be paid for a second time."""
    whole = events(completion("ls"))
    server = serve(in_turn(Mishap(body=whole, sends=whole.index(b'"finish_reason": "stop"') + 30)))
    [answer] = generate(server, tmp_path, work(), replace(FAST, stream=True))
    assert (answer.text, answer.usage) == ("ls", None)
    assert len(server.requests) == 1


def test_done_without_a_space_ends_a_stream(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn(Mishap(body=events(completion("ls")).replace(b"data: [DONE]", b"data:[DONE]"))))
    [answer] = generate(server, tmp_path, work(), replace(FAST, stream=True))
    assert answer.text == "ls" and answer.usage is not None
    assert len(server.requests) == 1


def test_retry_after_is_honoured_by_everybody(serve: Serve, tmp_path: Path) -> None:
    """A server that has too much to do says so to one, and means all."""
    times: list[float] = []

    def script(request: Json) -> Json | Mishap:
        times.append(time.monotonic())
        if len(times) == 1:
            return error(429, "slow down", retry_after="1")
        return Mishap(body=completion("ls"), delay=0.3)

    answers = generate(serve(script), tmp_path, work(8), replace(FAST, concurrency=2))
    assert texts(answers) == ["ls"] * 8
    # The second one may have been on its way.
    assert all(later - times[0] >= 1.0 for later in times[2:])


def test_a_server_that_asks_for_a_day_is_not_waited_for(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn(error(429, "daily quota", retry_after="86400")))
    begun = time.monotonic()
    [answer] = generate(server, tmp_path, work(), KEEP_GOING)
    assert "86400" in answer.error and time.monotonic() - begun < 5


# ---------------------------------------------------------------- several answers


def test_n_answers_come_in_one_request_and_its_tokens_count_once(serve: Serve, tmp_path: Path, streams: bool) -> None:
    server = serve(in_turn(completion("a", "b", "c", "d", "e", usage=(11, 23))))
    answers = generate(server, tmp_path, work(n=5), replace(FAST, stream=streams), price=Price(input=1e6, output=2e6))
    assert texts(answers) == list("abcde")
    assert [request["n"] for request in server.requests] == [5]
    usages = [answer.usage for answer in answers if answer.usage]
    assert (sum(u.prompt_tokens for u in usages), sum(u.completion_tokens for u in usages)) == (11, 23)
    assert sum(answer.cost or 0 for answer in answers) == pytest.approx(11 + 46)


@pytest.mark.parametrize("refuses", [False, True], ids=["gives one", "refuses"])
def test_a_server_without_n_is_asked_one_by_one(serve: Serve, tmp_path: Path, streams: bool, refuses: bool) -> None:
    count = iter(range(100))

    def script(request: Json) -> Json | Mishap:
        if refuses and request.get("n", 1) > 1:
            return error(400, "n must be 1")
        return completion(f"answer {next(count)}")

    server = serve(script)
    answers = generate(server, tmp_path, work(4, n=3), replace(FAST, stream=streams, concurrency=1))
    assert sorted(texts(answers)) == sorted(f"answer {number}" for number in range(12))
    # It was found out once, and not tried again.
    assert sum("n" in request for request in server.requests) == 1
    assert len(server.requests) == (13 if refuses else 12)


def test_too_many_choices_are_no_further_answers(serve: Serve, tmp_path: Path, streams: bool) -> None:
    server = serve(in_turn(completion("a", "b", "c")))
    assert texts(generate(server, tmp_path, work(), replace(FAST, stream=streams))) == ["a"]


def test_choices_are_in_the_order_of_their_indices(serve: Serve, tmp_path: Path) -> None:
    body = {**completion(), "choices": [_choice("second", index=1), _choice("first", index=0)]}
    assert texts(generate(serve(in_turn(body)), tmp_path, work(n=2))) == ["first", "second"]


def test_half_of_two_answers_is_kept_and_the_other_one_asked_for(serve: Serve, tmp_path: Path) -> None:
    body = events(completion("first", "second"))
    cut = body.index(b'"index": 1')
    server = serve(in_turn(Mishap(body=body, sends=cut), completion("again")))
    assert texts(generate(server, tmp_path, work(n=2), replace(FAST, stream=True))) == ["first", "again"]
    assert [request.get("n") for request in server.requests] == [2, None]


def test_seeds_differ_between_answers(serve: Serve, tmp_path: Path) -> None:
    server = serve(lambda request: completion(f"seed {request['seed']}"))
    assert texts(generate(server, tmp_path, work(n=3, sampling=Sampling(seed=40)))) == ["seed 40", "seed 41", "seed 42"]
    assert all("n" not in request for request in server.requests)


# ---------------------------------------------------------------- kinds of answers


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (completion("  \n"), "empty", "  \n"),
        (completion(""), "empty", ""),
        (completion({"content": None}), "empty", ""),
        (completion({"content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]}), "empty", ""),
        (completion("python tra", finish_reason="length"), "length", "python tra"),
        (completion({"content": "", "reasoning_content": "hmm"}, finish_reason="length"), "length", ""),
        (completion({"content": None, "refusal": "I cannot."}), "refusal", "I cannot."),
        (completion("", finish_reason="content_filter"), "refusal", ""),
        (completion({"content": "ls", "reasoning_content": "hmm"}), "ok", "ls"),
    ],
)
def test_each_kind_of_answer_is_told_and_not_asked_for_again(
    serve: Serve, tmp_path: Path, streams: bool, body: Json, status: str, text: str
) -> None:
    server = serve(in_turn(body))
    [answer] = generate(server, tmp_path, work(), replace(FAST, stream=streams))
    assert (answer.status, answer.text) == (status, text)
    assert answer.reasoning == (body["choices"][0]["message"].get("reasoning_content") or "")
    assert len(server.requests) == 1


def test_a_text_in_parts_is_one(serve: Serve, tmp_path: Path) -> None:
    body = completion({"content": [{"type": "text", "text": "python "}, {"type": "text", "text": "a.py"}]})
    assert texts(generate(serve(in_turn(body)), tmp_path, work())) == ["python a.py"]


def test_an_answer_without_usage_has_none(serve: Serve, tmp_path: Path, streams: bool) -> None:
    server = serve(in_turn(completion("ls", usage=None)))
    price = Price(input=1, output=1)
    [answer] = generate(server, tmp_path, work(), replace(FAST, stream=streams), price=price)
    assert (answer.usage, answer.cost) == (None, None)


def test_tokens_of_a_reply_without_choices_are_counted(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn({**completion(usage=(10, 0)), "choices": []}, completion("ls", usage=(10, 5))))
    [answer] = generate(server, tmp_path, work())
    assert answer.usage is not None and answer.usage.prompt_tokens == 20 and answer.usage.completion_tokens == 5


def test_a_server_that_does_not_know_stream_options_is_asked_without(serve: Serve, tmp_path: Path) -> None:
    def script(request: Json) -> Json | Mishap:
        return error(400, "unknown field stream_options") if "stream_options" in request else completion("ls")

    server = serve(script)
    assert texts(generate(server, tmp_path, work(3), replace(FAST, stream=True, concurrency=1))) == ["ls"] * 3
    assert len(server.requests) == 4


# ---------------------------------------------------------------- what is no use to repeat


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
def test_where_every_request_is_refused_it_stops_and_stores_nothing(
    serve: Serve, tmp_path: Path, streams: bool, status: int
) -> None:
    server = serve(in_turn(error(status, f"bad key {KEY}")))
    with pytest.raises(GenerationStopped, match=str(status)) as raised:
        generate(server, tmp_path, work(30), replace(FAST, stream=streams, concurrency=2))
    assert len(server.requests) < 14
    assert stored(tmp_path, work(30)) == [] and predictions(tmp_path) == {}
    assert KEY not in str(raised.value)
    # What is mended goes on by itself.
    server.script = in_turn(completion("ls"))
    assert texts(generate(server, tmp_path, work(30))) == ["ls"] * 30


def test_few_requests_that_all_fail_stop_it_too(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(GenerationStopped, match="no such model"):
        generate(serve(in_turn(error(404, "no such model"))), tmp_path, work(2))
    assert stored(tmp_path, work(2)) == []


def test_a_server_that_is_not_there_stops_it(tmp_path: Path) -> None:
    with pytest.raises(GenerationStopped, match=r"--base-url"):
        generate("http://127.0.0.1:9/v1", tmp_path, work(20))


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "Input length exceeds context window",
    ],
)
def test_a_prompt_that_is_too_long_is_an_error_of_its_task_alone(
    serve: Serve, tmp_path: Path, streams: bool, message: str
) -> None:
    wanted = work(8, n=2)
    too_long = {prompt.task_id for prompt in wanted.prompts[:6]}

    def script(request: Json) -> Json | Mishap:
        if request["messages"][0]["content"] in too_long:
            return error(400, message)
        return completion(*["ls"] * request.get("n", 1))

    server = serve(script)
    answers = generate(server, tmp_path, wanted, replace(FAST, stream=streams))
    assert [answer.status for answer in answers] == ["error"] * 12 + ["ok"] * 4
    assert all(request["n"] == 2 for request in server.requests)
    assert len(server.requests) == 8
    assert predictions(tmp_path)[wanted.prompts[0].task_id] == ["", ""]


def test_a_request_that_is_refused_alone_is_an_error_of_its_task(serve: Serve, tmp_path: Path) -> None:
    wanted = work(10)
    flagged = wanted.prompts[0].task_id

    def script(request: Json) -> Json | Mishap:
        return error(403, "flagged") if request["messages"][0]["content"] == flagged else completion("ls")

    answers = generate(serve(script), tmp_path, wanted, replace(FAST, concurrency=1))
    assert [answer.status for answer in answers] == ["error"] + ["ok"] * 9


def test_a_key_that_is_withdrawn_on_the_way_stops_it(serve: Serve, tmp_path: Path) -> None:
    server = serve(in_turn(completion("ls"), completion("ls"), error(402, "no credit left")))
    with pytest.raises(GenerationStopped, match="no credit left"):
        generate(server, tmp_path, work(30), replace(FAST, concurrency=1))
    assert [answer.status for answer in stored(tmp_path, work(30))] == ["ok", "ok"]


def test_failures_between_answers_do_not_stop_it(serve: Serve, tmp_path: Path) -> None:
    pair: list[Json | Mishap] = [completion("ls"), error(402, "busy account")]
    server = serve(in_turn(*pair * 12))
    answers = generate(server, tmp_path, work(24), replace(FAST, concurrency=1))
    assert [answer.status for answer in answers] == ["ok", "error"] * 12


def test_the_key_goes_to_the_server_and_nowhere_else(serve: Serve, tmp_path: Path, streams: bool) -> None:
    server = serve(in_turn(error(500, f"key {KEY} broke"), Mishap(body=f'{{"error": "{KEY}"}}'.encode())))
    generate(server, tmp_path, work(), replace(KEEP_GOING, stream=streams))
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    for path in tmp_path.iterdir():
        assert KEY not in path.read_text(encoding="utf-8"), path


# ---------------------------------------------------------------- how fast


def test_no_more_requests_run_at_once_than_are_allowed(serve: Serve, tmp_path: Path) -> None:
    server = serve(lambda request: Mishap(body=completion("ls"), delay=0.05))
    generate(server, tmp_path, work(12), replace(FAST, concurrency=3))
    assert server.most_at_once == 3


def test_the_rate_is_kept(serve: Serve, tmp_path: Path) -> None:
    times: list[float] = []

    def script(request: Json) -> Json:
        times.append(time.monotonic())
        return completion("ls")

    generate(serve(script), tmp_path, work(6), replace(FAST, per_minute=600))
    # Five intervals of 0.1 s, of which the first may be short on the server's side: connecting takes time, too.
    assert times[-1] - times[0] > 0.35


def test_many_streams_do_not_run_out_of_connections(serve: Serve, tmp_path: Path) -> None:
    """A pool has a hundred of them, and a stream that is not read to its end does not give its own back."""
    server = serve(in_turn(completion("ls")))
    answers = generate(
        server, tmp_path, work(30, n=5, sampling=Sampling(seed=1)), replace(FAST, stream=True, deadline=20)
    )
    assert len(answers) == 150 and {answer.status for answer in answers} == {"ok"}
    assert threading.active_count() < 60
