"""Answer: one answer to one task, or the failure to get it, as it is stored; and the key that says which it is."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import Field

from ml_bench_metric.results import JsonRecord
from ml_bench_metric.sandbox.execution import Record
from ml_bench_solvers.prompt import Prompt

Status = Literal["ok", "empty", "refusal", "length", "error"]
"""What an answer is: `ok`; `empty`, no text; `refusal`, the model or a filter of its server declined; `length`, cut off
at the limit of tokens; `error`, there is none: the request failed, which is not the model's fault."""

_KEY_VERSION = 1


class Sampling(Record):
    """What decides on an answer beside the prompt and the model."""

    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int | None = Field(default=2048, ge=1)
    """None: as many as the server lets it have."""
    seed: int | None = None
    """Of the first answer; answer i has `seed + i`."""
    stop: tuple[str, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request, as the server wants them. None takes a field away that is sent otherwise."""

    def seed_of(self, index: int) -> int | None:
        """Return the seed of an answer."""
        return None if self.seed is None else self.seed + index


class Usage(Record):
    """Tokens, as the server counted them."""

    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
        )

    def shares(self, parts: int) -> list[Usage]:
        """Return as many shares, as even as can be, whose sum is this."""

        def share(tokens: int, part: int) -> int:
            return tokens // parts + (part < tokens % parts)

        return [
            Usage(prompt_tokens=share(self.prompt_tokens, part), completion_tokens=share(self.completion_tokens, part))
            for part in range(parts)
        ]


class Answer(JsonRecord):
    """One answer, or the failure to get it."""

    key: str
    """See `answer_key`."""
    task_id: str
    index: int = Field(ge=0)
    """Position among the answers to its task, from 0."""
    status: Status
    text: str = ""
    """As it came; of a refusal, its words. Halves of surrogate pairs are U+FFFD."""
    finish_reason: str = ""
    """As the server gave it."""
    reasoning: str = ""
    """What the model thought before it answered, where the server tells that apart from the answer."""
    error: str = ""
    """Of status `error`: what failed."""
    model: str = ""
    """The model that the server says it was."""
    request_id: str = ""
    """The server's name for the request; answers that came together share it."""
    usage: Usage | None = None
    """Its share of the tokens of its request, failed attempts among them as far as they were counted: the sum over all
    answers is what the server counted. None where the server did not say."""
    cost: float | None = None
    """Price of `usage`; None where tokens or prices are not known."""
    seconds: float = Field(default=0.0, ge=0)
    """Wall time of the attempt that gave it; answers that came together share it."""
    attempts: int = Field(default=1, ge=1)
    """How often its request was sent."""
    time: str = ""
    """When it arrived, UTC, ISO 8601."""


def answer_key(prompt: Prompt, model: str, sampling: Sampling, index: int) -> str:
    """Return what an answer is stored under: SHA-256 (hex) of all that decides on it.

    The server is not part of it: the same model elsewhere is the same model. The task is: two tasks that ask the same
    are to have two draws.
    """
    facts = [_KEY_VERSION, prompt.task_id, prompt.digest, model, sampling.model_dump(), index]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
