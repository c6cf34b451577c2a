"""A model for agents that work in threads: one client, one pace and one log for all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet

from ml_bench_solvers.agents.workspace import AgentError
from ml_bench_solvers.generation.answers import Usage
from ml_bench_solvers.generation.asking import Asker
from ml_bench_solvers.generation.client import ChatClient, Endpoint
from ml_bench_solvers.generation.errors import Abandoned
from ml_bench_solvers.generation.pacing import Pacer
from ml_bench_solvers.generation.prices import Price
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.replies import Reply
from ml_bench_solvers.generation.request_log import RequestLog
from ml_bench_solvers.generation.run import Manner

_LOOKS_SECONDS = 0.5
"""How often whoever waits for a reply looks whether it is still wanted."""


class Model:
    """A model on a server. Use it as a context manager: it holds connections, and a thread that waits for replies."""

    def __init__(
        self,
        place: Endpoint,
        name: str,
        open_log: Callable[[], RequestLog],
        manner: Manner | None = None,
        price: Price | None = None,
    ) -> None:
        """Ask nothing yet.

        Args:
            place: where requests go.
            name: the name that the server knows it by.
            open_log: called once it is entered; every attempt is noted in what it returns, which is closed in the end.
            manner: how to ask; of it, `concurrency`, `max_cost` and `keep_going` mean nothing here.
            price: what its tokens cost; None where that is not known.
        """
        self.name = name
        self._place = place
        self._open_log = open_log
        self._manner = manner or Manner()
        self._price = price
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ml-bench-model", daemon=True)
        self._client: ChatClient | None = None
        self._asker: Asker | None = None

    def __enter__(self) -> Model:
        """Start the thread, and return self.

        Raises:
            OSError: the log cannot be opened.
        """
        self._log = self._open_log()
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(self, *error: object) -> None:
        """Give up what is asked for still, and end all connections."""
        self._asker = None
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._log.close()

    def ask(self, question: Question, waiting: Callable[[], None] = lambda: None) -> Reply:
        """Return the reply to a question.

        Args:
            question: what is asked.
            waiting: called every half second; what it raises ends the waiting, and the request with it.

        Raises:
            RequestFailed: there is none, after all attempts.
            AgentError: the model was left while it was asked.
        """
        if self._asker is None:
            raise AgentError(f"{self.name} is asked outside of its `with` block")
        future = asyncio.run_coroutine_threadsafe(self._asker.ask(question), self._loop)
        try:
            return _result(future, waiting)
        except (Abandoned, CancelledError) as error:
            raise AgentError(f"{self.name} is not asked any more: the run is to end") from error
        finally:
            future.cancel()

    def cost_of(self, usage: Usage | None) -> float | None:
        """Return what tokens cost; None where that is not known."""
        return None if usage is None or self._price is None else self._price.of(usage)

    async def _open(self) -> None:
        manner = self._manner
        self._client = ChatClient(self._place, self.name, stream=manner.stream, deadline=manner.deadline)
        self._pacer = Pacer(manner.per_minute, first_wait=manner.first_wait)
        self._asker = Asker(self._client, self._pacer, self._log, attempts=manner.attempts)

    async def _close(self) -> None:
        self._pacer.end()
        asked = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        if self._client is not None:
            await self._client.__aexit__()


def _result(future: Future[Reply], waiting: Callable[[], None]) -> Reply:
    while True:
        try:
            return future.result(_LOOKS_SECONDS)
        except NotYet:
            # What came just now, be it a timeout of the request's own, is told by the next look.
            if not future.done():
                waiting()
