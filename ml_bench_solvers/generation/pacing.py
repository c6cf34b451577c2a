"""When to send: a rate that is not exceeded, waits that servers ask for, and longer ones before each attempt."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from ml_bench_solvers.generation.errors import Abandoned

_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0


class Pacer:
    """Says when a request may be sent. All requests of a run share one."""

    def __init__(self, per_minute: float | None = None, *, first_wait: float = _FIRST_WAIT) -> None:
        """Nothing was sent yet.

        Args:
            per_minute: requests that may be sent in a minute, evenly spread; None for no limit.
            first_wait: seconds before a second attempt, where the server does not say how long; each further one waits
                twice as long, up to a minute.
        """
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._first_wait = first_wait
        self._next = 0.0
        self._held_until = 0.0
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Let nothing be sent any more: whoever waits, or comes to wait, meets `Abandoned`."""
        self._ending.set()

    async def turn(self) -> None:
        """Wait until the next request may be sent.

        Raises:
            Abandoned: nothing more is to be sent.
        """
        now = time.monotonic()
        mine = max(now, self._next)
        self._next = mine + self._interval
        await self._wait(mine - now)
        while (left := self._held_until - time.monotonic()) > 0:
            await self._wait(left)

    def hold(self, seconds: float) -> None:
        """Let nobody send for some time: a server that has too much to do says so to one, and means all."""
        self._held_until = max(self._held_until, time.monotonic() + seconds)

    async def before_attempt(self, number: int, retry_after: float | None) -> float:
        """Wait before an attempt, counted from 1 for the second one, and return how long that was to be in seconds.

        Raises:
            Abandoned: nothing more is to be sent.
        """
        longest: float = min(_LONGEST_WAIT, self._first_wait * 2 ** (number - 1))
        # Spread, so that those who failed together do not come back together.
        seconds = random.uniform(0.5, 1.0) * longest
        if retry_after is not None:
            # Never sooner than asked.
            seconds = retry_after + 0.1 * seconds
        await self._wait(seconds)
        return seconds

    async def _wait(self, seconds: float) -> None:
        if self._ending.is_set():
            raise Abandoned
        if seconds <= 0:
            return
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except asyncio.TimeoutError:
            return
        raise Abandoned


def read_retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that a server asks to wait, from its header Retry-After; None where it does not, or wrongly.

    Args:
        headers: of the response; names in lower case, or a mapping to which case is the same.
        now: the present time, where it is not that of the clock.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.replace(".", "", 1).isdigit():
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    if until.tzinfo is None:  # `-0000`: UTC that says nothing of where it is from
        until = until.replace(tzinfo=timezone.utc)
    return max(0.0, (until - (now or datetime.now(timezone.utc))).total_seconds())
