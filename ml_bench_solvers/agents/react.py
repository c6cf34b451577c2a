"""The agent `react`: a model in a loop that acts, sees what came of it, and goes on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ml_bench_metric.tasks import Task
from ml_bench_solvers.agents.history import History, Turn, size_of
from ml_bench_solvers.agents.model import Model
from ml_bench_solvers.agents.text_protocol import read_blocks
from ml_bench_solvers.agents.tools import COMMAND_SECONDS, TOOLS, Action, Outcome, perform, read_calls
from ml_bench_solvers.agents.workspace import AgentError, Network, Start, Workspace
from ml_bench_solvers.generation.answers import Sampling, Usage
from ml_bench_solvers.generation.errors import RequestFailed
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.replies import Choice, Reply
from ml_bench_solvers.prompt import Prompt
from ml_bench_solvers.prompts import task_facts
from ml_bench_solvers.templates import OWN, Template, read_template

Protocol = Literal["auto", "tools", "text"]
"""How a model acts: by calls of tools; by blocks of its text; or by calls, until it turns out that it cannot."""

WORDING = OWN / "agent"
"""This project's own templates for it."""

_IDLE = 3
"""So many replies in sequence without anything to do, and the model has given up."""

_MOST_ACTIONS = 16
"""Of one reply: a model that writes more has not looked at what the first of them brought."""

_HALVINGS = 4
"""How often the conversation is halved when the server says that it is too long."""

_TOKENS_USED = 0.9
"""Share of a budget of tokens that is used: texts differ in how many characters a token has."""

_LEAST_BUDGET = 2_000

_ABOUT_TOOLS = re.compile(r"\btools?\b|tool[_ -]|function[_ -]?call|functions? (?:is|are) not", re.IGNORECASE)

_REFUSES_TOOLS = (400, 404, 405, 422, 500, 501)


@dataclass(frozen=True)
class Conduct:
    """How the agent goes about its work."""

    protocol: Protocol = "auto"
    characters: int = 200_000
    """Of a request's messages at the most, the prompt's included."""
    tokens: int | None = None
    """Of a request's messages at the most: reckoned by how many the server counted in the request before."""
    output: int = 12_000
    """Characters of one result that the model is shown."""
    turns: int | None = None
    """Replies that the model is told it has. Who counts and stops is the workspace."""
    seconds: float | None = None
    """As above, of time."""
    judged_seconds: float = 120.0
    """The judge's time limit for `run.sh`, for the prompt."""
    start: Start = "prepared"
    """What the workspace is, for the prompt."""
    network: Network = "none"
    """As above."""
    allowed: tuple[str, ...] = ()
    """The hosts that network `allowlist` reaches, for the prompt."""


class ReactAgent:
    """Works on tasks with a model. Several threads may use it, a task each."""

    def __init__(
        self,
        model: Model,
        sampling: Sampling | None = None,
        conduct: Conduct | None = None,
        template: Template | None = None,
    ) -> None:
        """Ask nothing yet.

        Args:
            model: that is asked, already entered.
            sampling: temperature and the like of every reply. A seed is the same for all of them.
            conduct: how to go about it.
            template: the wording; None: this project's own.

        Raises:
            PromptError: the templates cannot be read.
        """
        self.model = model
        self.sampling = sampling or Sampling(max_tokens=4096)
        self.conduct = conduct or Conduct()
        self.template = template or read_template(WORDING)
        self.speaks_text = self.conduct.protocol == "text"
        """Whether it is known that the server takes no tools."""

    @property
    def name(self) -> str:
        """`react:` and the model."""
        return f"react:{self.model.name}"

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides on its work, as plain JSON values: runs in which it is equal can be gone on with."""
        tools = hashlib.sha256(json.dumps(TOOLS, sort_keys=True).encode()).hexdigest()
        return {
            "agent": "react",
            "model": self.model.name,
            "sampling": self.sampling.model_dump(mode="json"),
            "template": self.template.name,
            "tools": tools[:12],
            **asdict(self.conduct),
            "allowed": list(self.conduct.allowed),
        }

    def solve(self, task: Task, workspace: Workspace) -> None:
        """Work on a task until the model ends its work, gives up, or cannot be asked for more.

        Raises:
            BudgetSpent, WorkspaceError: what the workspace has raised.
            AgentError: the server does not answer.
            PromptError: a template failed.
        """
        _Work(self, task, workspace).go()


class _Work:
    """Work on one task."""

    def __init__(self, agent: ReactAgent, task: Task, workspace: Workspace) -> None:
        self._agent = agent
        self._conduct = agent.conduct
        self._task = task
        self._workspace = workspace
        self._history = History(self._conduct.characters)
        if self._conduct.tokens is not None:
            # Few texts have fewer characters to a token.
            self._history.budget = min(self._history.budget, 2 * self._conduct.tokens)
        self._turn = 0
        self._idle = 0
        """Replies in sequence, up to now, without anything to do."""
        self._called = False
        self._most_characters = self._conduct.characters
        self._use(text=agent.speaks_text)

    def _use(self, *, text: bool) -> None:
        """Say the task anew, for one protocol or the other."""
        self._history.calls = not text
        agent, conduct = self._agent, self._conduct
        values: dict[str, object] = {
            "task": task_facts(self._task),
            "protocol": "text" if text else "tools",
            "start": conduct.start,
            "network": conduct.network,
            "allowed": ", ".join(conduct.allowed),
            "turns": conduct.turns,
            "seconds": conduct.seconds and round(conduct.seconds),
            "command_seconds": round(COMMAND_SECONDS),
            "judged_seconds": round(conduct.judged_seconds),
        }
        messages = agent.template.render(values)
        self._prompt = Prompt(self._task.task_id, "instruction", messages, agent.template.name, 0, False)
        self._prompt_size = sum(map(size_of, messages))
        for message in messages:
            self._workspace.record("message", {**message})

    def go(self) -> None:
        while self._idle < _IDLE:
            self._turn += 1
            # Before it is asked for: the last turn that there is must still be acted on.
            self._workspace.spend(turns=1)
            reply = self._reply()
            if reply is None:
                return
            choice = reply.choices[0]
            actions = self._actions(choice)
            self._note_reply(reply, choice, actions)
            if actions:
                self._idle = 0
                if self._act(choice, actions):
                    return
            else:
                self._idle += 1
                self._remind(choice)
        self._note(f"the model has given up: {_IDLE} replies in sequence without anything to do")

    def _reply(self) -> Reply | None:
        """Return the model's next reply; None where the conversation is too long for it, however short."""
        halvings = 0
        while True:
            self._history.fit(self._prompt_size)
            asked = self._prompt_size + self._history.size()
            question = Question(
                self._prompt,
                (0,),
                self._agent.sampling,
                self._history.messages(),
                TOOLS if self._history.calls else (),
            )
            try:
                reply = self._agent.model.ask(question, self._workspace.spend)
            except RequestFailed as failure:
                self._spend(failure.usage)
                if failure.too_long:
                    halvings += 1
                    if halvings > _HALVINGS or asked <= self._prompt_size:
                        self._note(f"the conversation is too long for the model: {failure}")
                        return None
                    self._halve(asked, str(failure))
                elif self._is_about_tools(failure):
                    self._note(f"the server takes no tools, so blocks of text are used: {failure}")
                    self._agent.speaks_text = True
                    self._use(text=True)
                else:
                    raise AgentError(f"{self._agent.model.name} does not answer: {failure}") from failure
            else:
                self._learn(asked, reply.usage)
                return reply

    def _halve(self, asked: int, why: str) -> None:
        budget = max(_LEAST_BUDGET, asked // 2, self._prompt_size * 2)
        if budget >= asked:
            budget = self._prompt_size
        self._history.budget = self._most_characters = budget
        self._note(f"the conversation is cut down to {self._history.budget} characters: {why}")

    def _is_about_tools(self, failure: RequestFailed) -> bool:
        return (
            self._conduct.protocol == "auto"
            and self._history.calls
            and not self._called
            and failure.status in _REFUSES_TOOLS
            and _ABOUT_TOOLS.search(str(failure)) is not None
        )

    def _learn(self, asked: int, usage: Usage | None) -> None:
        """Reckon how many characters the budget of tokens is."""
        if self._conduct.tokens is not None and usage is not None and usage.prompt_tokens > 0:
            budget = int(_TOKENS_USED * self._conduct.tokens * asked / usage.prompt_tokens)
            self._history.budget = min(self._most_characters, max(_LEAST_BUDGET, budget))

    def _actions(self, choice: Choice) -> list[Action]:
        # A call counts also where none was asked for: some servers make blocks into calls by themselves.
        if choice.calls:
            self._called = self._called or self._history.calls
            return read_calls(choice.calls, self._turn)
        blocks = read_blocks(choice.text, self._turn)
        # Servers without tools may leave them out silently, so that the model has never heard of any.
        may_switch = self._history.calls and self._conduct.protocol == "auto" and not self._called
        if may_switch and (blocks or self._idle):
            self._note("the model has called no tool, so blocks of text are used")
            self._use(text=True)
        return [] if self._history.calls else blocks

    def _act(self, choice: Choice, actions: Sequence[Action]) -> bool:
        """Do what the model wants, and return whether it has ended its work."""
        outcomes: list[Outcome] = []
        submitted = False
        for number, action in enumerate(actions):
            if submitted:
                outcome = Outcome("Not done: the work was ended before.")
            elif number >= _MOST_ACTIONS:
                outcome = Outcome(f"Not done: one reply may ask for {_MOST_ACTIONS} things; look at them first.")
            else:
                outcome = perform(action, self._workspace, self._conduct.output)
            submitted = submitted or outcome.submitted
            outcomes.append(outcome)
            self._workspace.record("message", {"role": "tool", "call": action.id, "content": outcome.text})
        reminder = self._last_words()
        self._history.add(Turn(choice.text, list(actions), outcomes, reminder))
        return submitted

    def _last_words(self) -> str:
        left = None if self._conduct.turns is None else self._conduct.turns - self._turn
        return "One reply is left. Leave run.sh with it." if left == 1 else ""

    def _remind(self, choice: Choice) -> None:
        if choice.status == "length":
            problem = "Your reply was cut off at its limit before it did anything. Do less at a time."
        elif choice.status == "empty":
            problem = "Your reply was empty."
        else:
            problem = "Your reply did nothing."
        how = (
            "Call a tool: bash, read_file, write_file, or submit when run.sh does the task."
            if self._history.calls
            else "Write a block that begins with ```bash, ```read PATH or ```write PATH, or ```submit when run.sh does "
            "the task; each fence stands at the beginning of a line."
        )
        reminder = " ".join(part for part in (problem, how, self._last_words()) if part)
        self._workspace.record("message", {"role": "user", "content": reminder})
        self._history.add(Turn(choice.text, reminder=reminder))

    def _note_reply(self, reply: Reply, choice: Choice, actions: Sequence[Action]) -> None:
        usage = reply.usage
        facts: dict[str, Any] = {
            "role": "assistant",
            "content": choice.text,
            "reasoning": choice.reasoning,
            "status": choice.status,
            "finish_reason": choice.finish_reason,
            "calls": [asdict(action) for action in actions],
            "model": reply.model,
            "request_id": reply.request_id,
            "prompt_tokens": usage.prompt_tokens if usage else None,
            "completion_tokens": usage.completion_tokens if usage else None,
            "cost": self._agent.model.cost_of(usage),
            "seconds": round(reply.seconds, 3),
            "attempts": reply.attempts,
        }
        self._workspace.record("message", facts)
        self._spend(usage)

    def _spend(self, usage: Usage | None) -> None:
        if usage is not None:
            self._workspace.spend(
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cost=self._agent.model.cost_of(usage) or 0.0,
            )

    def _note(self, text: str) -> None:
        self._workspace.record("note", {"text": text})
