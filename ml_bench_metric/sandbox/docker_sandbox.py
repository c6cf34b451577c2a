"""The sandbox on a Docker engine: a fresh container per candidate, its facts read from outside."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.sandbox.capture import Capture, Demultiplexer
from ml_bench_metric.sandbox.cgroups import CgroupReader
from ml_bench_metric.sandbox.docker_container import (
    CONTAINER_LABELS,
    READY,
    create_options,
    host_options,
    program_bytes,
)
from ml_bench_metric.sandbox.execution import Execution, Outcome, Times
from ml_bench_metric.sandbox.protocol import Capacity, Job, SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

_START_SECONDS = 60.0
"""Deadline for a started container to say that it is ready."""

_READ_BYTES = 1 << 18
_SAMPLE_SECONDS = 0.05
"""How often a running container's usage is read at the least; more often in its first half second. The last reading
is made when its output ends, or just before where the kernel is quicker: CPU time may lack what lies between."""

_TURN_SECONDS = 0.001
"""How long one call on the stream may wait while the program is still being sent."""

_DISK_SECONDS = 1.0
"""How often a running container's writable layer is measured."""


class DockerSandbox:
    """Executes candidates in containers of a Docker engine.

    Each gets a fresh container: no network, no capabilities, no new privileges, an unprivileged user, and `Limits`.
    Facts come from the engine and from cgroup files. Methods may be called from any thread.
    """

    def __init__(self, client: DockerClient | None = None, *, removers: int = 4) -> None:
        """Use a client, by default one for the engine that `DOCKER_HOST` names.

        Args:
            client: of the engine; it is closed with the sandbox only where it was made here.
            removers: number of threads that remove containers behind the candidates.

        Raises:
            SandboxError: no engine answers.
        """
        self._owns_client = client is None
        self.client = client or docker_engine.connect()
        self._labels = {docker_engine.OWNER_LABEL: docker_engine.owner(), **CONTAINER_LABELS}
        self._removers = ThreadPoolExecutor(removers, thread_name_prefix="ml-bench-remove")
        self._alive: set[str] = set()
        self._lock = threading.Lock()
        self._digests: dict[str, str] = {}

    def image_digest(self, image: str) -> str:
        """See `Sandbox.image_digest`."""
        from docker.errors import ImageNotFound

        if image not in self._digests:
            try:
                self._digests[image] = str(self.client.api.inspect_image(image)["Id"])
            except ImageNotFound as error:
                raise SandboxError(
                    f"the engine has no image {image!r}; build it (`ml-bench images build`), pull it, or load it"
                ) from error
            except Exception as error:
                raise SandboxError(
                    f"image {image!r} could not be looked up: {docker_engine.one_line(error)}"
                ) from error
        return self._digests[image]

    def capacity(self) -> Capacity:
        """See `Sandbox.capacity`."""
        try:
            info = self.client.info()
        except Exception as error:
            raise SandboxError(f"the Docker engine gives no information: {docker_engine.one_line(error)}") from error
        return Capacity(
            cpus=_usable_cpus(int(info["NCPU"])),
            memory_bytes=int(info["MemTotal"]),
            description=f"Docker {info['ServerVersion']}, {info['Driver']}, cgroup v{info.get('CgroupVersion', '1')}",
            load=os.getloadavg()[0] if self._is_local() else None,
        )

    def _is_local(self) -> bool:
        """Whether the engine is reached through a socket of this machine."""
        return str(self.client.api.base_url).startswith(("http+docker://", "npipe://"))

    def prepare(self, job: Job, cpus: tuple[int, ...] = ()) -> DockerPrepared:
        """See `Sandbox.prepare`. The container runs and waits for its program."""
        began = time.monotonic()
        digest = self.image_digest(job.image)
        container = ""
        try:
            created = self.client.api.create_container(
                digest,
                labels=self._labels,
                host_config=self.client.api.create_host_config(**host_options(job.limits, cpus)),
                **create_options(job),
            )
            container = str(created["Id"])
            with self._lock:
                self._alive.add(container)
            return DockerPrepared(self, job, digest, container, began)
        except SandboxError:
            self._remove_later(container)
            raise
        except Exception as error:
            self._remove_later(container)
            raise SandboxError(f"no container could be made: {docker_engine.one_line(error)}") from error

    def close(self) -> None:
        """See `Sandbox.close`."""
        with self._lock:
            left = list(self._alive)
        for container in left:
            self._remove_later(container)
        self._removers.shutdown(wait=True)
        if self._owns_client:
            self.client.close()

    def __enter__(self) -> DockerSandbox:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _remove_later(self, container: str) -> None:
        if container:
            self._removers.submit(self._remove, container)

    def _remove(self, container: str) -> None:
        try:
            docker_engine.remove_container(self.client, container)
        except Exception:
            # An engine that does not answer now is noticed by whoever asks it next; the label lets a later run sweep.
            return
        with self._lock:
            self._alive.discard(container)


def _usable_cpus(count: int) -> tuple[int, ...]:
    """Return the numbers of an engine's CPUs; on this machine, those that this process may use where they fit."""
    here = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    return tuple(sorted(here)) if len(here) == count else tuple(range(count))


class DockerPrepared:
    """A running container whose prelude waits for the program on its standard input."""

    def __init__(self, sandbox: DockerSandbox, job: Job, digest: str, container: str, began: float) -> None:
        """Start a created container and wait until it is ready.

        Raises:
            SandboxError: it does not start, or its image lacks what a candidate needs.
        """
        self._sandbox = sandbox
        self._api = sandbox.client.api
        self._job = job
        self._digest = digest
        self._container = container
        self._stdout, self._stderr = Capture(job.limits.kept_bytes), Capture(job.limits.kept_bytes)
        self._frames = Demultiplexer(self._stdout, self._stderr)
        self._stream = self._api.attach_socket(
            container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
        )
        self._socket: Any = getattr(self._stream, "_sock", self._stream)
        self._api.start(container)
        self._await_ready()
        pid = int(self._api.inspect_container(container)["State"]["Pid"])
        self._usage = CgroupReader(pid, container)
        self._ready_seconds: float | None = None
        # What making the container cost is not the candidate's.
        self._idle = self._usage.read()
        self._start_seconds = time.monotonic() - began

    def discard(self) -> None:
        """See `Prepared.discard`."""
        self._stream.close()
        self._sandbox._remove_later(self._container)

    def run(self) -> Execution:
        """See `Prepared.run`."""
        began = time.monotonic()
        try:
            outcome, status = self._follow(began)
            reason = ""
        except Exception as error:
            outcome, status = "environment_error", None
            reason = f"the sandbox failed while the candidate ran: {docker_engine.one_line(error)}"
        ended = time.monotonic()
        usage = self._usage.last
        cpu_seconds = None
        if usage.cpu_seconds is not None and self._idle.cpu_seconds is not None:
            cpu_seconds = max(0.0, usage.cpu_seconds - self._idle.cpu_seconds)
        self.discard()
        return Execution(
            outcome=outcome,
            status=status,
            times=Times(start=self._start_seconds, run=ended - began, teardown=time.monotonic() - ended),
            cpu_seconds=cpu_seconds,
            ready_seconds=self._ready_seconds,
            peak_memory_bytes=usage.peak_memory_bytes,
            oom_kills=usage.oom_kills,
            stdout=self._stdout.output(),
            stderr=self._stderr.output(),
            image=self._digest,
            reason=reason,
        )

    def _await_ready(self) -> None:
        """Wait for the prelude's mark. Only our own code has run until then, so what it says can be believed."""
        self._socket.settimeout(_START_SECONDS)
        try:
            while self._stdout.bytes < len(READY):
                data = self._socket.recv(_READ_BYTES)
                if not data:
                    said = self._stderr.output().head.strip() or self._stdout.output().head.strip()
                    raise SandboxError(f"the container cannot run a candidate: {said or 'it ended at once'}")
                self._frames.feed(data)
        except TimeoutError as error:
            raise SandboxError(f"a started container was not ready after {_START_SECONDS:.0f} s") from error
        self._stdout = Capture(self._job.limits.kept_bytes)
        self._frames = Demultiplexer(self._stdout, self._stderr)

    def _follow(self, began: float) -> tuple[Outcome, int | None]:
        """Send the program, then read output and usage until the candidate ends or meets a limit."""
        limits = self._job.limits
        deadline = began + limits.seconds
        next_disk = began + _DISK_SECONDS
        unsent = memoryview(program_bytes(self._job))
        while True:
            now = time.monotonic()
            if now >= deadline:
                return self._still_running()
            if unsent:
                unsent = self._send(unsent)
            pause = min(_SAMPLE_SECONDS, deadline - now, (now - began) / 10)
            data = self._receive(_TURN_SECONDS if unsent else pause)
            self._usage.read()
            if data == b"":
                return self._ended(deadline)
            if data:
                self._frames.feed(data)
                if self._stdout.bytes + self._stderr.bytes > limits.output_bytes:
                    return "output_limit", None
            if now >= next_disk:
                if self._disk_bytes() > limits.disk_bytes:
                    return "disk_full", None
                next_disk = time.monotonic() + _DISK_SECONDS

    def _still_running(self) -> tuple[Outcome, None]:
        self._usage.read()
        self._ready_seconds = self._usage.ready_seconds()
        return "still_running", None

    def _send(self, unsent: memoryview) -> memoryview:
        """Write a part of the program into the container, and return the rest."""
        self._socket.settimeout(_TURN_SECONDS)
        try:
            return unsent[self._socket.send(unsent[:_READ_BYTES]) :]
        except TimeoutError:
            return unsent
        except OSError:
            # The container has ended; the reader meets the end of the stream and tells why.
            return unsent[:0]

    def _receive(self, seconds: float) -> bytes | None:
        """Return what the container wrote: None for nothing yet, `b""` for nothing any more."""
        self._socket.settimeout(max(_TURN_SECONDS, seconds))
        try:
            return bytes(self._socket.recv(_READ_BYTES))
        except TimeoutError:
            return None

    def _disk_bytes(self) -> int:
        """Return the size of the container's writable layer, as the engine measures it."""
        records = self._api.containers(all=True, size=True, filters={"id": self._container})
        return int(records[0].get("SizeRw") or 0) if records else 0

    def _ended(self, deadline: float) -> tuple[Outcome, int | None]:
        """Return how a container ended whose output has ended, waiting for one that closed its output and went on."""
        while True:
            state = self._api.inspect_container(self._container)["State"]
            if not state["Running"] and state["Status"] != "removing":
                break
            self._usage.read()
            if time.monotonic() >= deadline:
                return self._still_running()
            time.sleep(_TURN_SECONDS * 5)
        if state.get("Error"):
            raise SandboxError(str(state["Error"]))
        status = int(state["ExitCode"])
        if status and (state.get("OOMKilled") or self._usage.last.oom_kills):
            return "out_of_memory", status
        if status == 128 + 9 and time.monotonic() > deadline:
            # The inner keeper ended it: this process was held up for longer than the grace.
            return "still_running", None
        if 128 < status <= 128 + 64:
            return "killed", status
        return "exited", status
