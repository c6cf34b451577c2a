"""Asking until there is an answer: attempts, waits between them, and what a server cannot do found out on the way."""

from __future__ import annotations

import time
from dataclasses import replace

from ml_bench_solvers.generation.answers import Usage
from ml_bench_solvers.generation.client import ChatClient
from ml_bench_solvers.generation.errors import RequestFailed
from ml_bench_solvers.generation.pacing import Pacer
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.replies import Reply
from ml_bench_solvers.generation.request_log import RequestLog

_LONGEST_RETRY_AFTER = 600.0
"""Seconds that a server may ask to wait. A program that waits until tomorrow helps nobody."""

_TRIED_IN_PIECES = 2


class Asker:
    """Asks a server questions, each until it is answered or there is no use in going on."""

    def __init__(self, client: ChatClient, pacer: Pacer, log: RequestLog, *, attempts: int = 6) -> None:
        """Ask nothing yet.

        Args:
            client: to the server.
            pacer: says when to send.
            log: every attempt is noted there.
            attempts: how often a request is sent at the most.
        """
        self._client = client
        self._pacer = pacer
        self._log = log
        self._attempts = attempts
        self._counts = True
        """Whether the server tells the tokens of what comes in pieces, as far as is known."""
        self.together = True
        """Whether the server gives several answers to one request, as far as is known."""

    async def ask(self, question: Question) -> Reply:
        """Return what is answered: for some of the answers that were asked for, at least one.

        Raises:
            RequestFailed: nothing, in the end.
            Abandoned: the run is to end, and it is not known yet.
        """
        spent: Usage | None = None
        number = broken = 0
        counts = self._counts
        while True:
            number += 1
            await self._pacer.turn()
            begun = time.monotonic()
            stream = self._client.streams and broken < _TRIED_IN_PIECES
            try:
                reply = await self._client.send(question, stream=stream, counts=counts)
            except RequestFailed as failure:
                self._note(question, number, failure.label, begun, str(failure))
                if failure.usage is not None:
                    spent = failure.usage + (spent or Usage())
                # A line separator within a text breaks a stream for the library that reads it, every time anew.
                broken += failure.label == "broken"
                if stream and counts and _may_be_about_counting(question, failure):
                    counts = False
                    continue
                failure.attempts = number
                failure.usage = spent
                await self._before_next(failure, number)
            else:
                self._note(question, number, "200", begun, reply.request_id)
                # Only what has helped is kept to: without the tokens nobody knows the cost.
                self._counts = counts
                if len(reply.choices) < len(question.indices):
                    self.together = False
                usage = reply.usage
                if spent is not None:
                    usage = spent + (usage or Usage())
                return replace(reply, usage=usage, attempts=number)

    async def _before_next(self, failure: RequestFailed, number: int) -> None:
        """Wait before the next attempt; raise the failure where there is to be none."""
        asked = failure.retry_after
        if not failure.retryable or number >= self._attempts:
            raise failure
        if asked is not None and asked > _LONGEST_RETRY_AFTER:
            raise RequestFailed(
                f"{failure}; the server asks to wait {asked:.0f} s",
                label=failure.label,
                status=failure.status,
                usage=failure.usage,
            )
        if asked is not None and failure.status in (429, 503):
            self._pacer.hold(asked)
        await self._pacer.before_attempt(number, asked)

    def _note(self, question: Question, attempt: int, outcome: str, begun: float, detail: str) -> None:
        self._log.write(
            task=question.prompt.task_id,
            answers=question.indices,
            attempt=attempt,
            outcome=outcome,
            seconds=time.monotonic() - begun,
            detail=detail,
        )


def _may_be_about_counting(question: Question, failure: RequestFailed) -> bool:
    """Return whether a server may have refused a request since it was to count the tokens of a stream."""
    if failure.status not in (400, 422) or failure.too_long:
        return False
    return len(question.indices) == 1 or "stream_options" in str(failure)
