"""Making answers out of replies and failures, and storing them."""

from __future__ import annotations

from collections.abc import Iterator

from ml_bench_solvers.generation.answers import Answer, Usage, answer_key
from ml_bench_solvers.generation.errors import RequestFailed
from ml_bench_solvers.generation.folder import GenerationFolder
from ml_bench_solvers.generation.prices import Price
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.replies import Reply
from ml_bench_solvers.generation.request_log import now


class Recorder:
    """Stores what became of questions."""

    def __init__(self, folder: GenerationFolder, model: str, price: Price | None) -> None:
        """Store nothing yet.

        Args:
            folder: where answers go.
            model: that is asked, by the name that is part of the keys.
            price: of its tokens; None where it is not known.
        """
        self._folder = folder
        self._model = model
        self._price = price

    @property
    def spent(self) -> float:
        """What all answers in the folder cost, as far as it is known."""
        return self._folder.paid.cost

    def answered(self, question: Question, reply: Reply) -> Iterator[Answer]:
        """Store what a reply brings, and yield each answer once it is stored."""
        shares: list[Usage | None] = [None] * len(reply.choices)
        if reply.usage is not None:
            shares = list(reply.usage.shares(len(reply.choices)))
        for index, choice, usage in zip(question.indices, reply.choices, shares, strict=False):
            yield self._store(
                Answer(
                    key=self._key(question, index),
                    task_id=question.prompt.task_id,
                    index=index,
                    status=choice.status,
                    text=choice.text,
                    finish_reason=choice.finish_reason,
                    reasoning=choice.reasoning,
                    model=reply.model,
                    request_id=reply.request_id,
                    usage=usage,
                    cost=self._cost(usage),
                    seconds=reply.seconds,
                    attempts=reply.attempts,
                    time=now(),
                )
            )

    def failed(self, question: Question, failure: RequestFailed) -> Iterator[Answer]:
        """Store that there is no answer, and yield each once it is stored."""
        shares: list[Usage | None] = [None] * len(question.indices)
        if failure.usage is not None:
            shares = list(failure.usage.shares(len(question.indices)))
        for index, usage in zip(question.indices, shares, strict=True):
            yield self._store(
                Answer(
                    key=self._key(question, index),
                    task_id=question.prompt.task_id,
                    index=index,
                    status="error",
                    error=str(failure),
                    usage=usage,
                    cost=self._cost(usage),
                    attempts=failure.attempts,
                    time=now(),
                )
            )

    def _key(self, question: Question, index: int) -> str:
        return answer_key(question.prompt, self._model, question.sampling, index)

    def _cost(self, usage: Usage | None) -> float | None:
        return self._price.of(usage) if self._price is not None and usage is not None else None

    def _store(self, answer: Answer) -> Answer:
        self._folder.add(answer)
        return answer
