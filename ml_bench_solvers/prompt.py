"""Prompt: what a model is asked about one task. Data only; `prompts.py` makes them, whoever generates sends them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

Setting = Literal["code", "retrieval", "oracle", "instruction"]
"""What of the repository a model is shown: its text, the best window of it, the annotated passage, or nothing."""

SETTINGS: tuple[Setting, ...] = get_args(Setting)


class Message(TypedDict):
    """A chat message, as OpenAI-compatible servers take it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Prompt:
    """The messages for one task, and how they came about."""

    task_id: str
    setting: Setting
    messages: tuple[Message, ...]
    template: str
    """Name, version and the first 12 hex digits of the digest of the templates: `ml-bench/1-0123456789ab`."""
    context_characters: int
    """How much of the repository's text is in it, in characters."""
    cut: bool
    """Whether that is less than there was to show."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the messages: what decides on the answer, apart from the model and its sampling."""
        return hashlib.sha256(json.dumps(self.messages, ensure_ascii=False).encode("utf-8", "replace")).hexdigest()
