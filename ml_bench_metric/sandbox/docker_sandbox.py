"""The sandbox on a Docker engine: a fresh container per candidate, its facts read from outside."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ml_bench_metric.sandbox import docker_engine, overlay_archive
from ml_bench_metric.sandbox.capture import Capture, Demultiplexer
from ml_bench_metric.sandbox.cgroups import CgroupReader
from ml_bench_metric.sandbox.command_lines import CommandLines, child_of
from ml_bench_metric.sandbox.deleted_files import deleted_bytes
from ml_bench_metric.sandbox.disk_watch import DiskWatch
from ml_bench_metric.sandbox.docker_container import (
    APPLIED,
    CLEARED,
    CONTAINER_LABELS,
    READY,
    create_options,
    host_options,
    program_bytes,
    removed_bytes,
)
from ml_bench_metric.sandbox.docker_network import NoNetwork
from ml_bench_metric.sandbox.docker_time import engine_seconds
from ml_bench_metric.sandbox.engine_disk import EngineDisk
from ml_bench_metric.sandbox.engine_watch import EngineWatch
from ml_bench_metric.sandbox.execution import Execution, Outcome, Times
from ml_bench_metric.sandbox.first_process import FirstProcess
from ml_bench_metric.sandbox.gpus import engine_gpus, explained
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Capacity, Job, SandboxError, Slot, do_nothing

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

_HELD_UP_SECONDS = 1.0
"""How late a time limit may be noticed. Beyond it the candidate has had more time and CPU than it was to have, so
nothing is said of it: the outcome is an environment error, and the candidate runs again."""

_CLOCK_SECONDS = 0.1
"""How much the engine's clock may be set in small steps, as machines do all the time, without being doubted."""


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
        docker_engine.set_deadlines(self.client)
        self._labels = {docker_engine.OWNER_LABEL: docker_engine.owner(), **CONTAINER_LABELS}
        self._network = NoNetwork(self.client, self._labels)
        self._removers = ThreadPoolExecutor(removers, thread_name_prefix="ml-bench-remove")
        self._alive: set[str] = set()
        self._lock = threading.Lock()
        self._digests: dict[str, str] = {}
        self._gpus: tuple[str, ...] | None = None
        self._watch = EngineWatch(self.client, f"{docker_engine.OWNER_LABEL}={docker_engine.owner()}")
        self._folder: str | None = None

    kind = "docker"

    def image_digest(self, image: str) -> str:
        """See `Sandbox.image_digest`."""
        from docker.errors import ImageNotFound

        if image not in self._digests:
            try:
                self._digests[image] = str(self.client.api.inspect_image(image)["Id"])
            except ImageNotFound as error:
                raise SandboxError(_no_image(image)) from error
            except Exception as error:
                raise SandboxError(
                    f"image {image!r} could not be looked up: {docker_engine.one_line(error)}"
                ) from error
        return self._digests[image]

    def capacity(self) -> Capacity:
        """See `Sandbox.capacity`."""
        try:
            docker_engine.require_new_connections(self.client)
            info = self.client.info()
        except Exception as error:
            raise SandboxError(f"the Docker engine gives no information: {docker_engine.one_line(error)}") from error
        if self._gpus is None:
            # Once: asking the driver can take seconds.
            self._gpus = engine_gpus(info, local=docker_engine.is_local(self.client))
        return Capacity(
            cpus=_usable_cpus(int(info["NCPU"])),
            memory_bytes=int(info["MemTotal"]),
            description=f"Docker {info['ServerVersion']}, {info['Driver']}, cgroup v{info.get('CgroupVersion', '1')}",
            load=os.getloadavg()[0] if docker_engine.is_local(self.client) else None,
            gpus=self._gpus,
            place="" if docker_engine.is_local(self.client) else str(info.get("ID", "")),
        )

    def prepare(self, job: Job, slot: Slot = ANY_SLOT) -> DockerPrepared:
        """See `Sandbox.prepare`. The container runs and waits for its program."""
        from docker.errors import ImageNotFound

        began = time.monotonic()
        digest = self.image_digest(job.image)
        if job.overlay is not None:
            overlay_archive.check(job.overlay)
        container = ""
        try:
            network, host_network = self._network.options(digest)
            created = self.client.api.create_container(
                digest,
                labels=self._labels,
                host_config=self.client.api.create_host_config(**host_options(job.limits, slot), **host_network),
                **create_options(job),
                **network,
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
            # An image that was removed meanwhile is looked up again, and told as missing, by the next try.
            self._digests.pop(job.image, None)
            said = docker_engine.one_line(error)
            self._network.hear(said)
            said = explained(said) if job.limits.gpus else said
            if isinstance(error, ImageNotFound):
                said = _no_image(job.image)
            raise SandboxError(f"no container could be made: {said}") from error

    def close(self) -> None:
        """See `Sandbox.close`."""
        with self._lock:
            left = list(self._alive)
        for container in left:
            self._remove_later(container)
        self._removers.shutdown(wait=True)
        with contextlib.suppress(Exception):
            # As in `_remove`.
            self._network.close()
        self._watch.close()
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

    def _data_folder(self) -> str:
        """Return where the engine keeps its data, if that is on this machine."""
        if self._folder is None:
            local = docker_engine.is_local(self.client)
            self._folder = str(self.client.info().get("DockerRootDir") or "") if local else ""
        return self._folder

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


def _no_image(image: str) -> str:
    return f"the engine has no image {image!r}; build it (`ml-bench images build`), pull it, or load it"


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
        self._lock = threading.Lock()
        self._running = self._discarded = False
        self._first: FirstProcess | None = None
        self._engine_disk = EngineDisk(sandbox._data_folder())
        self._listening = sandbox._watch.listen()
        self._stream = self._api.attach_socket(
            container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
        )
        self._socket: Any = getattr(self._stream, "_sock", self._stream)
        try:
            self._starting = time.monotonic()
            self._api.start(container)
            self._started = time.monotonic()
            if job.overlay is not None:
                self._apply(job.overlay)
            self._await(READY)
            self._pid = int(self._api.inspect_container(container)["State"]["Pid"])
        except BaseException:
            self._close()
            raise
        self._usage = CgroupReader(self._pid, container)
        self._first = FirstProcess(self._pid) if self._usage.found else None
        self._commands: CommandLines | None = None
        if job.form == "run.sh":
            self._commands = CommandLines(self._usage.pids, child_of(self._pid, self._usage.pids()), self._pid)
        self._ready_seconds: float | None = None
        self._brought_bytes = 0
        self._disk = DiskWatch(self._written_bytes, job.limits.disk_bytes)
        # What making the container cost is not the candidate's.
        self._idle = self._usage.read()
        self._brought_bytes = max(0, self._written_bytes() or 0) if job.overlay is not None else 0
        self._start_seconds = time.monotonic() - began

    def discard(self) -> None:
        """See `Prepared.discard`. From another thread it ends a run that is under way."""
        with self._lock:
            self._discarded = True
            if self._running:
                # Only the thread that reads may close: the number of a closed file can belong to another one at once.
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
            else:
                self._close()
        self._sandbox._remove_later(self._container)

    def run(self, freed: Callable[[], None] = do_nothing) -> Execution:
        """See `Prepared.run`."""
        if self._first is not None:
            self._first.tell(freed)
        with self._lock:
            self._running = not self._discarded
        began = time.monotonic()
        try:
            if self._discarded:
                raise SandboxError("the container was removed before the candidate ran")
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
        self._disk.stop()
        with self._lock:
            self._running = False
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
            gpus=self._job.limits.gpus,
            reason=reason,
            commands=self._commands.seen if self._commands is not None else (),
        )

    def _close(self) -> None:
        """Give the stream's file free now; the HTTP client would leave that to the garbage collector."""
        for part in (getattr(self._stream, "_response", None), self._stream, self._socket, self._first):
            if part is not None:
                # ValueError: closing one part may have closed what another one wants to flush.
                with contextlib.suppress(OSError, ValueError):
                    part.close()

    def _apply(self, overlay: Overlay) -> None:
        """Have the prelude remove what an overlay removes, and the engine unpack the rest.

        Not before the container runs: what is removed must be gone when the rest is unpacked.

        Raises:
            SandboxError: one of them cannot.
        """
        self._tell(removed_bytes(overlay))
        self._await(CLEARED)
        try:
            self._api.put_archive(self._container, "/", overlay_archive.stream(overlay, self._job.user))
        except SandboxError:
            raise
        except Exception as error:
            raise SandboxError(f"the overlay could not be unpacked: {docker_engine.one_line(error)}") from error
        self._tell(APPLIED)

    def _tell(self, data: bytes) -> None:
        """Write to the prelude. One that has ended cannot read; what it has said tells why."""
        self._socket.settimeout(_START_SECONDS)
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def _await(self, mark: bytes) -> None:
        """Wait for a mark of the prelude. Only our own code has run until then, so what it says can be believed."""
        self._socket.settimeout(_START_SECONDS)
        try:
            while self._stdout.bytes < len(mark):
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
        self._disk.start()
        unsent = memoryview(program_bytes(self._job))
        while True:
            now = time.monotonic()
            if now >= deadline:
                return self._at_limit(began)
            if unsent:
                unsent = self._send(unsent)
            pause = min(_SAMPLE_SECONDS, deadline - now, (now - began) / 10)
            data = self._receive(_TURN_SECONDS if unsent else pause)
            self._usage.read()
            if self._commands is not None and not unsent:
                self._commands.look()
            self._engine_disk.look()
            if data == b"":
                return self._at_end(began)
            if data:
                self._frames.feed(data)
                if self._stdout.bytes + self._stderr.bytes > limits.output_bytes:
                    return "output_limit", None
            if self._disk.is_full():
                return "disk_full", None

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
        seconds = max(_TURN_SECONDS, seconds)
        if self._first is not None and not self._first.wait_beside(self._socket, seconds):
            return None
        self._socket.settimeout(seconds)
        try:
            return bytes(self._socket.recv(_READ_BYTES))
        except TimeoutError:
            return None

    def _written_bytes(self) -> int | None:
        """Return what was written, without the overlay, with deleted files that are still open; see `layer_bytes`."""
        size = docker_engine.layer_bytes(self._sandbox.client, self._container)
        if size is None or size < 0:
            return size
        return max(0, size - self._brought_bytes) + deleted_bytes(self._usage.pids())

    def _at_limit(self, began: float) -> tuple[Outcome, int | None]:
        """Return how things stand at the time limit: a candidate may have ended while this process was held up."""
        state = self._state()
        if state["Running"]:
            return self._still_running(began)
        self._drain()
        return self._of_state(state, began)

    def _at_end(self, began: float) -> tuple[Outcome, int | None]:
        """Return how a container ended whose output has ended, waiting for one that closed its output and went on."""
        while (state := self._state())["Running"]:
            # One that somebody else has started again would run until its limit.
            self._require_left_alone(ended=False)
            self._usage.read()
            if self._commands is not None:
                self._commands.look()
            self._engine_disk.look()
            if time.monotonic() >= began + self._job.limits.seconds:
                return self._still_running(began)
            if self._disk.is_full():
                return "disk_full", None
            time.sleep(_TURN_SECONDS * 5)
        return self._of_state(state, began)

    def _state(self) -> dict[str, Any]:
        return dict(self._api.inspect_container(self._container)["State"])

    def _still_running(self, began: float) -> tuple[Outcome, None]:
        self._require_undisturbed(ended=False)
        late = time.monotonic() - began - self._job.limits.seconds
        if late > _HELD_UP_SECONDS:
            raise SandboxError(
                f"this process was held up until {late:.1f} s after the candidate's time limit: what the candidate did "
                "by then is not known"
            )
        self._usage.read()
        self._ready_seconds = self._usage.ready_seconds()
        return "still_running", None

    def _drain(self) -> None:
        """Take the output that an ended container has left."""
        end = time.monotonic() + _HELD_UP_SECONDS
        while time.monotonic() < end:
            data = self._receive(_SAMPLE_SECONDS)
            if not data:
                return
            self._frames.feed(data)

    def _of_state(self, state: Mapping[str, Any], began: float) -> tuple[Outcome, int | None]:
        """Return how an ended container ended."""
        limit = self._job.limits.seconds
        now = time.monotonic()
        if now > began + limit:
            # Seen late: the engine's own clock says whether it ended in time.
            alive = engine_seconds(state["FinishedAt"]) - engine_seconds(state["StartedAt"])
            # It lived when the candidate began, and did not live longer than until now.
            if not began - self._started - _CLOCK_SECONDS <= alive <= now - self._starting + _CLOCK_SECONDS:
                raise SandboxError("the clock of the engine was changed while the candidate ran")
            if alive - (began - self._started) > limit:
                return self._still_running(began)
        if state.get("Error"):
            raise SandboxError(str(state["Error"]))
        if state.get("Status") in ("stopping", "removing"):
            # Podman says so of a container that is being removed, with a status of 0 that it never ended with.
            raise SandboxError("somebody else stops or removes the container")
        self._require_undisturbed(ended=True)
        status = int(state["ExitCode"])
        if status:
            self._require_disk()
        if status and (state.get("OOMKilled") or self._usage.last.oom_kills):
            return "out_of_memory", status
        if 128 < status <= 128 + 64:
            return "killed", status
        return "exited", status

    def _require_undisturbed(self, *, ended: bool) -> None:
        """Look whether how things stand is the candidate's doing.

        Raises:
            SandboxError: somebody else, or the engine's own end, had a hand in it.
        """
        self._require_left_alone(ended=ended)
        if not ended:
            self._require_disk()

    def _require_left_alone(self, *, ended: bool) -> None:
        """Look whether somebody else had a hand in how things stand.

        Raises:
            SandboxError: somebody had.
        """
        fault = self._sandbox._watch.fault(self._container, self._listening, ended=ended)
        if fault:
            raise SandboxError(fault)

    def _require_disk(self) -> None:
        """Look whether the engine's disk had room for what the candidate wrote.

        Raises:
            SandboxError: it was full.
        """
        self._engine_disk.look()
        if self._engine_disk.was_full:
            raise SandboxError(
                "the disk of the engine was full while the candidate ran; make room on it, or give a smaller disk limit"
            )
