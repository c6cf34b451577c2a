"""An OpenAI-compatible server on loopback that answers, and misbehaves, as it is told.

`with ModelServer(lambda request: completion("ls")) as server: server.url`. A script is called with the JSON of each
request, one at a time, and returns a completion, which is sent in pieces where the request says
`stream`, or a `Mishap`.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.local_server import LocalServer

Json = dict[str, Any]


@dataclass
class Mishap:
    """What is sent in place of a completion, or with one."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Json = b""
    """Bytes as they are, or JSON; a completion is sent in pieces where the request says so."""
    sends: int | None = None
    """Bytes of the body that are sent before the connection ends; None for all."""
    silent: bool = False
    """Whether nothing more is sent after those, while the connection stays."""
    piece: int | None = None
    """Bytes that are sent at a time."""
    delay: float = 0.0
    """Seconds before anything is sent."""
    says_length: bool = True
    """Whether the client can tell that a body is not whole: without a length, the connection's end is its end."""


Script = Callable[[Json], "Json | Mishap"]


def completion(
    *answers: str | Json,
    finish_reason: str | None = "stop",
    usage: tuple[int, int] | None = (10, 5),
    model: str = "served-model",
    **fields: Any,
) -> Json:
    """Return a completion.

    Args:
        answers: the text of each choice, or its message: `{"content": None, "tool_calls": [...]}`.
        finish_reason: of every choice.
        usage: tokens of the prompt and of the completion; None says nothing of them.
        model: the name that the server gives the model.
        fields: further ones of the completion.
    """
    messages = [{"content": answer} if isinstance(answer, str) else answer for answer in answers]
    body: Json = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {"index": index, "finish_reason": finish_reason, "message": {"role": "assistant", **message}}
            for index, message in enumerate(messages)
        ],
    }
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return {**body, **fields}


def error(status: int, message: str, **headers: str) -> Mishap:
    """Return an error of the form in which OpenAI's servers tell them; `retry_after="3"` is a header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Mishap(status, named, {"error": {"message": message, "type": "error", "code": None}})


def events(body: Json, *, width: int = 7) -> bytes:
    """Return a completion as the events of a stream: texts in pieces of so many characters, usage last."""
    common = {"id": body["id"], "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    lines = [json.dumps({**common, **chunk}, ensure_ascii=False) for chunk in _chunks(body, width)]
    return b"".join(f"data: {line}\n\n".encode() for line in [*lines, "[DONE]"])


def _chunks(body: Json, width: int) -> Iterator[Json]:
    for choice in body["choices"]:
        message, index = choice["message"], choice["index"]
        for name in ("reasoning_content", "content", "refusal"):
            text = message.get(name) or ""
            for begin in range(0, len(text), width):
                delta = {"role": "assistant", name: text[begin : begin + width]}
                yield {"choices": [{"index": index, "delta": delta, "finish_reason": None}]}
        if calls := message.get("tool_calls"):
            numbered = [{"index": number, **call} for number, call in enumerate(calls)]
            delta = {"role": "assistant", "tool_calls": numbered}
            yield {"choices": [{"index": index, "delta": delta, "finish_reason": None}]}
        yield {"choices": [{"index": index, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    if "usage" in body:
        yield {"choices": [], "usage": body["usage"]}


def in_turn(*results: Json | Mishap) -> Script:
    """Return a script that gives these one after the other, and the last one ever after."""
    left = list(results)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def replay(answers: Mapping[str, Sequence[str]], *, together: bool = True) -> Script:
    """Return a script that gives recorded answers: to the last message of a request, the next ones recorded for it.

    Args:
        answers: the content of a message -> the answers to it.
        together: whether a request for several gets them; else it gets one.
    """
    given: Counter[str] = Counter()

    def script(request: Json) -> Json:
        question = request["messages"][-1]["content"]
        count = request.get("n", 1) if together else 1
        begin = given[question]
        given[question] += count
        return completion(*answers[question][begin : begin + count], usage=(len(question), 7 * count))

    return script


class ModelServer(LocalServer):
    """The server, and what it was asked."""

    def __init__(self, script: Script) -> None:
        super().__init__(_Handler)
        self.script = script
        self.requests: list[Json] = []
        """The JSON of each request so far."""
        self.headers: list[dict[str, str]] = []
        """The headers of each, names in lower case."""
        self.at_once = 0
        """Requests that are being answered."""
        self.most_at_once = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """What a client takes for its base URL."""
        return f"{self.address}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        owner: ModelServer = self.server.owner  # type: ignore[attr-defined]
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with owner.lock:
            owner.at_once += 1
            owner.most_at_once = max(owner.most_at_once, owner.at_once)
            owner.requests.append(request)
            owner.headers.append({name.lower(): value for name, value in self.headers.items()})
            found = self._result(owner, request)
        try:
            self._send(owner, request, found if isinstance(found, Mishap) else Mishap(body=found))
        finally:
            with owner.lock:
                owner.at_once -= 1

    def _result(self, owner: ModelServer, request: Json) -> Json | Mishap:
        if self.path != "/v1/chat/completions":
            return error(404, f"no such path: {self.path}")
        return owner.script(request)

    def _send(self, owner: ModelServer, request: Json, mishap: Mishap) -> None:
        body, kind = mishap.body, "application/json"
        if isinstance(body, dict) and request.get("stream") and "choices" in body:
            body, kind = events(body), "text/event-stream"
        elif isinstance(body, bytes) and body.startswith(b"data:"):
            kind = "text/event-stream"
        elif isinstance(body, dict):
            body = json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        owner.released.wait(mishap.delay)
        self.send_response(mishap.status)
        for name, value in {"Content-Type": kind, **mishap.headers}.items():
            self.send_header(name, value)
        if mishap.says_length:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        sent = body if mishap.sends is None else body[: mishap.sends]
        for begin in range(0, len(sent), mishap.piece or len(sent) or 1):
            self.wfile.write(sent[begin : begin + (mishap.piece or len(sent))])
            self.wfile.flush()
            if mishap.piece:
                owner.released.wait(0.001)
        if mishap.silent:
            owner.released.wait(30)
        if mishap.sends is not None or mishap.silent or not mishap.says_length:
            self.close_connection = True


Serve = Callable[[Script], ModelServer]
"""What the fixture `serve` is: starts a server, which ends with the test."""
