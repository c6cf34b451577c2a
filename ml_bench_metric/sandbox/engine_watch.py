"""What others do to candidates' containers, told by the engine's events: an end that others made is no candidate's.

The state of a container that was killed, stopped or outlived by its engine looks like that of one whose candidate ended
in the same way. Only the engine's events tell them apart, and an engine that restarts tells none of what was before.
What somebody does past the engine, such as a `kill` of a container's process on the host, it does not know: that looks
like the candidate's own end.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.sandbox.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

_DEEDS = {
    "kill": "somebody else stopped or killed the container",
    "pause": "somebody else paused the container",
    "unpause": "somebody else paused the container",
}
_END = "die"
_FORGOTTEN = "destroy"

_TOLD_SECONDS = 2.0
"""How long the event of a container's end may take to arrive. It comes after all that led to the end."""

_AT_ONCE_SECONDS = 0.5


class EngineWatch:
    """Listens to an engine's events in a thread of its own. Methods may be called from any thread."""

    def __init__(self, client: DockerClient, label: str) -> None:
        """Listen to nothing yet.

        Args:
            client: of the engine.
            label: `name=value` of the containers that count.
        """
        self._client, self._label = client, label
        self._changed = threading.Condition()
        self._stream: Any = None
        self._hearing: threading.Thread | None = None
        self._deaf = False
        self._times = 0
        self._deeds: dict[str, str] = {}
        self._ended: set[str] = set()

    def listen(self) -> int:
        """Listen from now on, if that is not done yet; return how many times listening has begun.

        The number changes when an engine went away. An engine without events is not listened to.

        Raises:
            SandboxError: the engine does not answer.
        """
        with self._changed:
            if self._hearing is None and not self._deaf:
                self._hearing = threading.Thread(target=self._hear, name="ml-bench-events", daemon=True)
                self._hearing.start()
            # In that thread, because this call of the client has no deadline of its own.
            if not self._changed.wait_for(
                lambda: self._stream is not None or self._hearing is None, docker_engine.CALL_SECONDS
            ):
                raise SandboxError("the engine does not tell its events")
            if self._stream is None and not self._deaf:
                raise SandboxError("the engine's events could not be listened to")
            return self._times

    def fault(self, container: str, listening: int, *, ended: bool) -> str:
        """Return what others did to a container that is not removed yet; empty for nothing.

        Args:
            container: its id.
            listening: what `listen` returned before it was started.
            ended: whether it has ended; then the event of that is waited for.
        """
        end = time.monotonic() + _TOLD_SECONDS
        with self._changed:
            while True:
                if self._deaf:
                    return ""
                if self._stream is None or self._times != listening:
                    return "the engine was restarted, or the connection to it broke, while the candidate ran"
                left = end - time.monotonic()
                if container in self._deeds or not ended or container in self._ended or left <= 0:
                    return self._deeds.get(container, "")
                self._changed.wait(left)

    def close(self) -> None:
        """Stop listening."""
        with self._changed:
            stream = self._stream
        if stream is not None:
            # A connection that has ended by itself cannot be shut down once more.
            with contextlib.suppress(Exception):
                stream.close()

    def _hear(self) -> None:
        from docker.errors import APIError

        filters = {"type": "container", "label": self._label, "event": [*_DEEDS, _END, _FORGOTTEN]}
        try:
            stream = self._client.api.events(decode=True, filters=filters)
            began = time.monotonic()
            with self._changed:
                self._stream = stream
                self._times += 1
                self._changed.notify_all()
            heard = False
            for event in stream:
                heard = True
                self._take(event)
            # Podman without a place for events ends the answer at once.
            self._deaf = not heard and time.monotonic() - began < _AT_ONCE_SECONDS
        except APIError:
            self._deaf = True
        except Exception:
            # However the connection ends: what was told on it is all that is known.
            pass
        with self._changed:
            self._stream = self._hearing = None
            self._deeds.clear()
            self._ended.clear()
            self._changed.notify_all()

    def _take(self, event: Mapping[str, Any]) -> None:
        container, what = str(event["Actor"]["ID"]), str(event["Action"])
        with self._changed:
            if what == _FORGOTTEN:
                self._deeds.pop(container, None)
                self._ended.discard(container)
            elif what == _END:
                self._ended.add(container)
            elif what in _DEEDS:
                self._deeds.setdefault(container, _DEEDS[what])
            self._changed.notify_all()
