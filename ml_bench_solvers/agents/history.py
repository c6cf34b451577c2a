"""What a model is shown of its own conversation: all of it as long as it fits, then less of what is oldest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ml_bench_solvers.agents.shortening import shortened
from ml_bench_solvers.agents.text_protocol import results_text
from ml_bench_solvers.agents.tools import Action, Outcome

_SHORT = 300
"""Characters that are left of a shortened text."""

_MARGIN = 0.75
"""Once something has to go, the conversation is brought down to this share of its budget: servers keep what they have
read of a conversation that only grows, and every change to an old part costs that."""

_OVERHEAD = 40
"""Characters that a message takes beside its text."""

Message = Mapping[str, Any]


@dataclass
class Turn:
    """A reply of the model, and what it was answered."""

    said: str
    actions: Sequence[Action] = ()
    """Of them, `fault`s are not sent again."""
    outcomes: list[Outcome] = field(default_factory=list)
    """One for each action."""
    reminder: str = ""
    """What else the model is told."""

    def messages(self, calls: bool) -> Iterator[Message]:
        """Yield the messages for it, with calls of tools or with everything as text."""
        # Servers refuse messages without any content.
        said: Message = {"role": "assistant", "content": self.said.strip() or "(nothing)"}
        if calls and self.actions:
            # Some servers read the arguments of earlier calls and fail where those are no JSON, so they are always.
            yield {
                "role": "assistant",
                "content": self.said.strip() or None,
                "tool_calls": [
                    {
                        "id": action.id,
                        "type": "function",
                        "function": {"name": action.name, "arguments": json.dumps(action.arguments)},
                    }
                    for action in self.actions
                ],
            }
            for action, outcome in zip(self.actions, self.outcomes, strict=True):
                yield {"role": "tool", "tool_call_id": action.id, "content": outcome.text or "(nothing)"}
            if self.reminder:
                yield {"role": "user", "content": self.reminder}
            return
        yield said
        parts = [results_text(self.actions, self.outcomes), self.reminder]
        yield {"role": "user", "content": "\n\n".join(part for part in parts if part) or "Go on."}

    def shorten_outcomes(self) -> None:
        """Keep little of what the actions have brought."""
        self.outcomes = [Outcome(shortened(outcome.text, _SHORT), outcome.submitted) for outcome in self.outcomes]

    def shorten_reply(self) -> None:
        """Keep little of what the model said and wrote."""
        self.said = shortened(self.said, _SHORT)
        self.actions = [
            Action(
                action.id,
                shortened(action.name, _SHORT),
                {
                    shortened(name, _SHORT): shortened(value, _SHORT)
                    if isinstance(value, str)
                    else value
                    if len(json.dumps(value)) <= _SHORT
                    else None
                    for name, value in action.arguments.items()
                },
                action.fault,
            )
            for action in self.actions
        ]


class History:
    """The conversation after the task, within a budget."""

    def __init__(self, budget: int) -> None:
        """Begin.

        Args:
            budget: characters of all messages, those of the prompt included.
        """
        self.budget = budget
        self.calls = True
        """Whether actions are calls of tools; else they are blocks of text."""
        self._turns: list[Turn] = []
        self._forgotten = 0

    def add(self, turn: Turn) -> None:
        """Add what has happened last."""
        self._turns.append(turn)

    def messages(self) -> tuple[Message, ...]:
        """Return the messages, as servers take them."""
        found = [message for turn in self._turns for message in turn.messages(self.calls)]
        if self._forgotten:
            note = f"(The first {self._forgotten} of your replies, and what they brought, are left out here.)"
            found.insert(0, {"role": "user", "content": note})
        return tuple(found)

    def size(self) -> int:
        """Return about how many characters the messages take."""
        return sum(map(size_of, self.messages()))

    def fit(self, prompt: int) -> None:
        """Bring the conversation into its budget, if it is not: what actions have brought goes first, the oldest of it
        first, then what the model said, then whole turns. Of the last turn, something is always left.

        Args:
            prompt: characters of the prompt's messages, which stay whole.
        """
        if prompt + self.size() <= self.budget:
            return
        wanted = int(self.budget * _MARGIN) - prompt
        for turn in self._turns[:-1]:
            if self.size() <= wanted:
                return
            turn.shorten_outcomes()
        for turn in self._turns[:-1]:
            if self.size() <= wanted:
                return
            turn.shorten_reply()
        while len(self._turns) > 1 and self.size() > wanted:
            del self._turns[0]
            self._forgotten += 1
        if self._turns and self.size() > wanted:
            self._shorten_last(wanted)

    def _shorten_last(self, wanted: int) -> None:
        last = self._turns[-1]
        room = max(_SHORT, (wanted - self.size() + sum(len(one.text) for one in last.outcomes)))
        share = max(_SHORT, room // max(1, len(last.outcomes)))
        last.outcomes = [Outcome(shortened(one.text, share), one.submitted) for one in last.outcomes]
        if self.size() > wanted:
            last.shorten_outcomes()
            last.shorten_reply()


def size_of(message: Message) -> int:
    """Return about how many characters a message takes."""
    calls = message.get("tool_calls")
    return _OVERHEAD + len(message.get("content") or "") + (len(json.dumps(calls)) if calls else 0)
