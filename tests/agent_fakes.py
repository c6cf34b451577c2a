"""A workspace without a sandbox, for tests of agents: a folder of the test's own, and a plain bash in it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from ml_bench_solvers.agents.model import Model
from ml_bench_solvers.agents.workspace import BudgetSpent, Ran
from ml_bench_solvers.generation.client import endpoint
from ml_bench_solvers.generation.prices import Price
from ml_bench_solvers.generation.request_log import RequestLog
from ml_bench_solvers.generation.run import Manner
from tests.model_server import Json, ModelServer, Script, completion

FAST = Manner(first_wait=0.001, attempts=3, deadline=5.0)


@dataclass
class FakeWorkspace:
    """Runs commands in a folder, and counts what is used."""

    place: Path
    turns: int | None = None
    """How many there are."""
    cost: float | None = None
    """How much money there is."""
    output: int = 1 << 20
    """Characters of a command's output that are kept."""
    steps: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """What was recorded: kinds and facts."""
    used: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("turns", "prompt_tokens", "completion_tokens", "cost"), 0)
    )
    waits: Callable[[], None] = lambda: None
    """Called whenever something is spent, also where it is nothing."""

    @property
    def folder(self) -> str:
        return str(self.place)

    def exec(self, command: str, *, timeout: float = 120.0) -> Ran:
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
            )
            status, output = done.returncode, done.stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired as expired:
            status, output = None, (expired.stdout or b"").decode("utf-8", "replace")
        ran = Ran(status=status, output=output[: self.output], truncated=len(output) > self.output)
        self.record("command", {"command": command, "status": ran.status, "output": ran.output})
        return ran

    def read_file(self, path: str) -> bytes:
        content = (self.place / path).read_bytes()
        self.record("read", {"path": path})
        return content[: 1 << 20]

    def write_file(self, path: str, content: bytes) -> None:
        (self.place / path).parent.mkdir(parents=True, exist_ok=True)
        (self.place / path).write_bytes(content)
        self.record("write", {"path": path, "bytes": len(content)})

    def record(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.steps.append((kind, dict(facts)))

    def spend(self, *, turns: int = 0, prompt_tokens: int = 0, completion_tokens: int = 0, cost: float = 0.0) -> None:
        for name, amount in (
            ("turns", turns),
            ("prompt_tokens", prompt_tokens),
            ("completion_tokens", completion_tokens),
            ("cost", cost),
        ):
            self.used[name] += amount
        self.waits()
        if self.turns is not None and self.used["turns"] > self.turns:
            raise BudgetSpent("all turns are used")
        if self.cost is not None and self.used["cost"] >= self.cost:
            raise BudgetSpent("all money is used")

    def messages(self, role: str) -> list[dict[str, Any]]:
        """Return the messages that were recorded of one who speaks."""
        return [facts for kind, facts in self.steps if kind == "message" and facts["role"] == role]

    def notes(self) -> list[str]:
        """Return the notes that were recorded."""
        return [facts["text"] for kind, facts in self.steps if kind == "note"]


def call(name: str, arguments: str, identity: str | None = "c1") -> Json:
    """Return a call of a tool as servers send it; its arguments are taken as they are."""
    made: Json = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return made if identity is None else {"id": identity, **made}


def calling(*calls: Json, text: str | None = None, **fields: Any) -> Json:
    """Return a completion with calls of tools."""
    return completion({"content": text, "tool_calls": list(calls)}, finish_reason="tool_calls", **fields)


@contextmanager
def scripted(script: Script, manner: Manner = FAST, price: Price | None = None) -> Iterator[tuple[Model, ModelServer]]:
    """Yield a model whose server follows a script, and the server."""
    with (
        ModelServer(script) as server,
        Model(endpoint(server.url, None, None), "m", lambda: RequestLog(StringIO()), manner, price) as model,
    ):
        yield model, server
