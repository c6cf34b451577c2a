"""One generation: asks what is not known yet, several questions at a time, and stores what comes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from ml_bench_metric.evaluation import Stop
from ml_bench_solvers.generation.answers import Answer
from ml_bench_solvers.generation.asking import Asker
from ml_bench_solvers.generation.errors import Abandoned, GenerationStopped, RequestFailed
from ml_bench_solvers.generation.pacing import Pacer
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.recording import Recorder

_FAILURES = 5
"""How many requests may fail likewise, each after all its attempts and none being answered, until it is clear that it
is not they that are at fault; twice as many where they fail differently."""

_OF_THE_WHOLE = ("401", "402", "disconnected")
"""Failures that are never a task's, also when others were answered: a key is withdrawn, money spent, a server gone."""

_LOOKS_SECONDS = 0.1
"""How often it is looked whether the run is to end: a signal handler cannot wake the loop."""


@dataclass(frozen=True)
class Manner:
    """How to ask."""

    concurrency: int = 8
    """Requests at a time."""
    max_cost: float | None = None
    """Nothing is begun once so much is spent, earlier parts of the run included. What runs then comes to its end."""
    keep_going: bool = False
    """Whether to go on though every request fails."""
    stream: bool = False
    """Whether answers come in pieces."""
    deadline: float = 600.0
    """Seconds that a request may take in all."""
    attempts: int = 6
    """How often a request is sent at the most."""
    per_minute: float | None = None
    """Requests a minute at the most, attempts counted singly."""
    first_wait: float = 1.0
    """Seconds before the second attempt; see `Pacer`."""


class Run:
    """Asks questions and stores what comes."""

    def __init__(
        self,
        questions: Iterable[Question],
        asker: Asker,
        pacer: Pacer,
        recorder: Recorder,
        manner: Manner,
        stop: Stop,
        advance: Callable[[Answer], None] = lambda answer: None,
    ) -> None:
        """Ask nothing yet.

        Args:
            questions: in the order in which they are asked.
            asker: asks them.
            pacer: of the asker.
            recorder: stores answers.
            manner: how to ask.
            stop: asks the run to end.
            advance: told of every answer that was stored.
        """
        self._queue = deque(questions)
        self._asker = asker
        self._pacer = pacer
        self._recorder = recorder
        self._manner = manner
        self._stop = stop
        self._advance = advance
        self._answered = False
        self._held: list[tuple[Question, RequestFailed]] = []
        self.out_of_money = False
        """Whether it ended since `max_cost` was spent."""

    async def go(self) -> None:
        """Ask until everything is known, or the run is to end.

        Raises:
            GenerationStopped: every request failed, or what it costs cannot be told; what was answered is stored.
            RunError: an answer cannot be stored.
        """
        running: set[asyncio.Task[None]] = set()
        try:
            while not self._stop.now:
                while len(running) < self._manner.concurrency and (question := self._next()) is not None:
                    running.add(asyncio.create_task(self._ask(question)))
                if not running:
                    self._end_of_held()
                    return
                done, running = await asyncio.wait(running, timeout=_LOOKS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                # All of them, since several may have found out about the same: asyncio complains of one not looked at.
                faults = [fault for task in done if (fault := task.exception()) is not None]
                if faults:
                    raise faults[0]
                if self._stop.finish:
                    self._pacer.end()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _next(self) -> Question | None:
        """Return what to ask next; None where there is nothing at present."""
        while self._may_begin():
            question = self._queue.popleft()
            if len(question.indices) == 1 or (question.seed is None and self._asker.together):
                return question
            self._queue.extendleft(reversed(question.apart()))
        return None

    def _may_begin(self) -> bool:
        if self._stop.finish or not self._queue:
            return False
        limit = self._manner.max_cost
        if limit is None or self._recorder.spent < limit:
            return True
        self.out_of_money = True
        return False

    async def _ask(self, question: Question) -> None:
        try:
            reply = await self._asker.ask(question)
        except RequestFailed as failure:
            if len(question.indices) > 1 and failure.status in (400, 422) and not failure.too_long:
                # Perhaps the server gives one answer to a request, and says so in this way.
                self._asker.together = False
                self._queue.extendleft(reversed(question.apart()))
            else:
                self._failed(question, failure)
            return
        except Abandoned:
            return
        self._answered = True
        self._record_held()
        for answer in self._recorder.answered(question, reply):
            self._advance(answer)
        if missing := question.indices[len(reply.choices) :]:
            self._queue.appendleft(question.only(missing))
        if self._manner.max_cost is not None and reply.usage is None:
            raise GenerationStopped(
                "the server does not say how many tokens an answer took, so --max-cost cannot be kept; what was "
                "answered is stored: go on without --max-cost"
            )

    def _failed(self, question: Question, failure: RequestFailed) -> None:
        of_the_task = self._answered and failure.label not in _OF_THE_WHOLE
        if failure.too_long or of_the_task or self._manner.keep_going:
            self._record(question, failure)
            return
        # It may be the key, the model's name or the server, and then it is no fact about any task.
        self._held.append((question, failure))
        kinds = {failure.label for _, failure in self._held}
        if len(self._held) >= (_FAILURES if len(kinds) == 1 else 2 * _FAILURES):
            self._give_up()

    def _end_of_held(self) -> None:
        """Decide on what was held back until the end."""
        if self._held and not self._answered and not self._stop.finish:
            self._give_up()
        if self._answered:
            self._record_held()

    def _give_up(self) -> NoReturn:
        _, last = self._held[-1]
        raise GenerationStopped(
            f"{len(self._held)} requests failed in a row, the last one with: {last}\n{_way_out(last)}; "
            "nothing of these was stored, and the same command goes on; --keep-going records them as errors instead"
        )

    def _record_held(self) -> None:
        """Record what was held back: that something is answered shows that it was no fault of the whole."""
        held, self._held = self._held, []
        for question, failure in held:
            self._record(question, failure)

    def _record(self, question: Question, failure: RequestFailed) -> None:
        for answer in self._recorder.failed(question, failure):
            self._advance(answer)


def _way_out(failure: RequestFailed) -> str:
    if failure.status in (401, 403):
        return "check the API key (HF_TOKEN, or --api-key-env NAME), and whether it may use this model"
    if failure.status == 402:
        return "the account has nothing left to spend"
    if failure.status == 404:
        return "check --base-url, which often ends with /v1, and --model"
    if failure.status in (400, 422):
        return "check --model and the options of sampling: --max-tokens, --temperature, --extra"
    if failure.label == "disconnected":
        return "check --base-url, and whether the server runs"
    if failure.label == "timeout":
        return "--timeout gives it more time"
    return "wait, or look at the server"
