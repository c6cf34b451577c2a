"""Where an agent works: a container of the repository's image that lives as long as the agent may.

It is hardened as a candidate's container is. Its first process is ours, root without any capability, and sleeps: the
agent's commands run as another user, beside it, and cannot end it. Files are read and written as the agent's user too,
so that what it may not touch stays so, and links lead nowhere that it could not go by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import TMP_ASSETS
from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.sandbox.capture import Capture, Demultiplexer
from ml_bench_metric.sandbox.cgroups import CgroupReader
from ml_bench_metric.sandbox.deleted_files import deleted_bytes
from ml_bench_metric.sandbox.disk_watch import DiskWatch
from ml_bench_metric.sandbox.docker_container import host_options
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.engine_disk import EngineDisk
from ml_bench_metric.sandbox.execution import Output
from ml_bench_metric.sandbox.limits import GIB, MIB, Limits
from ml_bench_metric.sandbox.protocol import ANY_SLOT, SandboxError, Slot
from ml_bench_metric.store import RunError
from ml_bench_metric.tasks import WORKSPACE, Task
from ml_bench_solvers.agents import relay
from ml_bench_solvers.agents.allowed_hosts import AllowedHosts
from ml_bench_solvers.agents.budget import Meter, Used
from ml_bench_solvers.agents.changes import ChangeLimits, Changes, take_changes
from ml_bench_solvers.agents.proxy import Proxy
from ml_bench_solvers.agents.trajectory import NETWORK, USED, Trajectory
from ml_bench_solvers.agents.workspace import Network, Ran, Start, WorkspaceError

if TYPE_CHECKING:
    from docker import DockerClient

LIMITS = Limits(
    memory_bytes=16 * GIB,
    processes=2048,
    tmp_bytes=4 * GIB,
    shm_bytes=1 * GIB,
    disk_bytes=16 * GIB,
    output_bytes=256 * MIB,
    kept_bytes=32 * 1024,
)
"""What an agent's container may use. `output_bytes` and `kept_bytes` are a command's; `seconds` does not count."""

FILE_BYTES = 1 << 20
"""How much of a file is read at the most."""
COMMAND_BYTES = 100_000
"""How long a command may be: Linux takes 131,071 bytes as one argument."""

CONTAINER_LABELS: Mapping[str, str] = {"ml-bench.container": "workspace"}

_START_SECONDS = 60.0
_FILE_SECONDS = 60.0
"""How long reading or writing a file may take: one that never ends may stand in its place."""
_KILL_SECONDS = 5.0
"""How long what was killed may take to be gone, until the whole container is started anew."""
_INSIDE_SECONDS = 1.0
"""How much later than its limit a command is ended from inside, where it cannot be from outside."""
_LEFT_SECONDS = 300.0
"""How much later than the agent's wall time the container ends by itself, should this process be gone."""
_REMOVAL_SECONDS = 60
_TURN_SECONDS = 0.02
_LOOK_SECONDS = (0.05, 1.0)
"""How often the engine is asked whether a silent command has ended, at the beginning and later on."""
_QUIET_SECONDS = 0.1
"""How long the output of an ended command is waited for, where something that it left behind holds it open."""
_READ_BYTES = 1 << 18
_NOT_FOUND, _NO_FILE, _NOT_WRITABLE = 91, 92, 93

_PREPARE = """
[ ! -d "$1" ] || cp -R -- "$1/." /tmp/ || { echo "$1 cannot be copied to /tmp" >&2; exit 1; }
cd -- "$2" || exit 1
: > .ml-bench-writable && rm .ml-bench-writable || { echo "user $(id -u) cannot write in $PWD" >&2; exit 1; }
timeout --signal=KILL 5 true || { echo "the image's timeout is not that of GNU coreutils" >&2; exit 1; }
[ -w "${HOME:-/}" ] && printf %s "$HOME"
exit 0
"""
_RUN = 'exec 2>&1; exec timeout --signal=KILL "$1" bash -c "$2"'
_READ = f"""
[ -e "$1" ] || exit {_NOT_FOUND}
[ -f "$1" ] || exit {_NO_FILE}
exec head -c {FILE_BYTES} -- "$1"
"""
_WRITE = f"""
case "$1" in */*) mkdir -p -- "${{1%/*}}/" || exit {_NOT_WRITABLE} ;; esac
[ ! -d "$1" ] || {{ echo "$1 is a folder" >&2; exit {_NOT_WRITABLE}; }}
head -c "$2" > "$1" || exit {_NOT_WRITABLE}
"""


@dataclass(frozen=True)
class Site:
    """How workspaces are made: what they have in common in one run."""

    start: Start = "prepared"
    network: Network = "none"
    limits: Limits = LIMITS
    changes: ChangeLimits = field(default_factory=ChangeLimits)
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the agent's commands, such as those of a proxy. They go before the image's own, and the
    task's go before them."""
    seconds: float = 1800.0
    """Wall time that agents have."""
    host_network: bool = False
    """Whether network `full` is the machine's own, its loopback included, where the engine has no bridge."""
    allowed: AllowedHosts | None = None
    """Whom network `allowlist` reaches; None for the others."""

    def __post_init__(self) -> None:
        """Raise ValueError where network and list do not belong together: one of them would be without effect."""
        if (self.network == "allowlist") != (self.allowed is not None):
            raise ValueError("network allowlist needs a list of hosts, and no other network has one")

    @property
    def network_mode(self) -> str:
        """The network, as the engine calls it."""
        if self.network == "full":
            return "host" if self.host_network else "bridge"
        return "none"


def require_network(client: DockerClient, site: Site, image: str) -> None:
    """Look whether the engine gives agents the network that they are to have, by a container that does nothing.

    `full` is Docker's own bridge: everything that the engine's machine reaches, but not the machine's own loopback,
    where its services, the engine perhaps among them, expect nobody but its users. `allowlist` is no network at all,
    but a socket of this machine with a `Proxy` behind it: whether an image can reach that its workspace finds out.

    Args:
        client: of the engine.
        site: how workspaces are made.
        image: digest of an image.

    Raises:
        SandboxError: it does not; the message says what to do.
    """
    if site.network == "none":
        return
    if site.network == "allowlist":
        if not docker_engine.is_local(client):
            raise SandboxError(
                "network allowlist needs an engine on this machine: its containers reach a socket here; take none, or "
                "full with a firewall of your own around the engine's bridge"
            )
        return
    api: Any = client.api
    container = ""
    try:
        host = api.create_host_config(**{**host_options(site.limits, ANY_SLOT), "network_mode": site.network_mode})
        labels = {docker_engine.OWNER_LABEL: docker_engine.owner(), **CONTAINER_LABELS}
        container = str(api.create_container(image, entrypoint=["sleep", "0"], labels=labels, host_config=host)["Id"])
        api.start(container)
    except Exception as error:
        raise SandboxError(
            f"the engine gives containers no network: {docker_engine.one_line(error)}; take --network none"
            + ("" if site.host_network else ", or --host-network, which shares the machine's own, loopback included")
        ) from error
    finally:
        if container:
            with contextlib.suppress(Exception):
                docker_engine.remove_container(client, container)


class DockerWorkspace:
    """A container in which one agent works on one task. `abort` may be called from any thread, all else from one."""

    def __init__(
        self,
        sandbox: DockerSandbox,
        task: Task,
        image: TaskImage,
        site: Site,
        meter: Meter,
        trajectory: Trajectory,
        slot: Slot = ANY_SLOT,
    ) -> None:
        """Make and start the container.

        Args:
            sandbox: whose engine is used.
            task: that is worked on.
            image: of the task.
            site: how.
            meter: of the task.
            trajectory: of the attempt.
            slot: which CPUs are the agent's own.

        Raises:
            WorkspaceError: it cannot be made, or its image lacks what an agent needs.
        """
        self._client = sandbox.client
        self._api: Any = sandbox.client.api
        self._site, self._meter, self._trajectory = site, meter, trajectory
        self._user = image.user
        self._folder = image.root + task.working_folder.removeprefix(WORKSPACE)
        self._repository = f"{image.root}/{task.directory}"
        proxies = {} if site.allowed is None else relay.VARIABLES
        self._variables = {**image.variables, **proxies, **site.variables, **task.variables}
        self._lock = threading.Lock()
        self._aborted = False
        self.container = ""
        """Its id."""
        self._disk: DiskWatch | None = None
        self._proxy: Proxy | None = None
        self._relay_ended = False
        """Whether ours was ended with all else; one that the agent has ended stays so."""
        try:
            self._make(sandbox, task, image, slot)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, WorkspaceError):
                said = docker_engine.one_line(error)
                raise WorkspaceError(f"no container for an agent could be made: {said}") from error
            raise
        meter.begin()

    @property
    def folder(self) -> str:
        """See `Workspace.folder`."""
        return self._folder

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of which changes count."""
        if self._site.start == "bare":
            return self._repository, "/opt/env", "/home/candidate"
        return (self._repository,)

    def exec(self, command: str, *, timeout: float = 120.0) -> Ran:
        """See `Workspace.exec`."""
        self._check()
        began = time.monotonic()
        fault = _fault_of(command)
        if fault:
            ran = Ran(status=126, output=fault)
        else:
            if self._relay_ended:
                self._relay_ended = False
                # What the agent has made of its Python is its own affair.
                if said := self._start_relay():
                    self._heard({"allowed": False, "why": f"the proxy cannot be reached any more: {said}"})
            seconds = max(0.1, min(timeout, self._meter.seconds_left))
            ended = self._run([_RUN, "ml-bench", f"{seconds + _INSIDE_SECONDS:.3f}", command], seconds)
            output = ended.stdout.head + (_GAP if ended.stdout.truncated else "") + ended.stdout.tail
            ran = Ran(
                status=ended.status,
                output=output + ended.note,
                truncated=ended.stdout.truncated,
                seconds=round(time.monotonic() - began, 3),
            )
        self.record("command", {"command": command, **ran.model_dump()})
        self._check()
        return ran

    def read_file(self, path: str) -> bytes:
        """See `Workspace.read_file`."""
        self._check()
        if "\0" in path or len(path) > COMMAND_BYTES:
            raise FileNotFoundError(f"no file can have the name {path[:200]!r}")
        ended = self._run([_READ, "ml-bench", path], _FILE_SECONDS, kept=2 * FILE_BYTES)
        self.record("read", {"path": path, "status": ended.status, "bytes": len(ended.raw)})
        self._check()
        if ended.status == _NOT_FOUND:
            raise FileNotFoundError(f"there is no file {path}")
        if ended.status == _NO_FILE:
            raise OSError(f"{path} is no file")
        if ended.status != 0:
            raise OSError(ended.stderr.head.strip() or f"{path} cannot be read")
        return ended.raw

    def write_file(self, path: str, content: bytes) -> None:
        """See `Workspace.write_file`."""
        self._check()
        if "\0" in path or len(path) > COMMAND_BYTES:
            raise OSError(f"no file can have the name {path[:200]!r}")
        ended = self._run([_WRITE, "ml-bench", path, str(len(content))], _FILE_SECONDS, content)
        text = content.decode("utf-8", "replace")
        self.record("write", {"path": path, "status": ended.status, "bytes": len(content), "content": text})
        self._check()
        if ended.status != 0:
            raise OSError(ended.stderr.head.strip() or f"{path} cannot be written")

    def record(self, kind: str, facts: Mapping[str, Any]) -> None:
        """See `Workspace.record`."""
        self._trajectory.add(kind, facts)

    def spend(self, *, turns: int = 0, prompt_tokens: int = 0, completion_tokens: int = 0, cost: float = 0.0) -> None:
        """See `Workspace.spend`."""
        self._require_alive()
        used = Used(turns=turns, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cost=cost)
        # Before it is counted: what was paid is known, though it was the last that could be.
        if used != Used():
            self._trajectory.add(USED, used.model_dump())
        self._meter.spend(used)

    def changes(self, archive: Path) -> Changes:
        """End all processes, and take out what the agent has changed; nothing can be run behind it.

        Args:
            archive: file to be written; there is none where nothing was changed.

        Raises:
            ChangesTooLarge: it has changed more than it may.
            WorkspaceError: the engine failed.
            OSError: the file cannot be written.
        """
        from docker.errors import APIError

        try:
            self._api.kill(self.container)
        except APIError as error:
            # 409: it does not run any more.
            if error.status_code != 409:
                raise WorkspaceError(f"the agent could not be ended: {docker_engine.one_line(error)}") from error
        except Exception as error:
            raise WorkspaceError(f"the agent could not be ended: {docker_engine.one_line(error)}") from error
        return take_changes(self._client, self.container, self.roots, archive, self._site.changes)

    def abort(self) -> None:
        """End everything at once, from any thread: what runs fails."""
        self._aborted = True
        self.close()

    def close(self) -> None:
        """Remove the container."""
        if self._disk is not None:
            self._disk.stop()
        with self._lock:
            container = self.container
        if container:
            # An engine that does not answer now is noticed by whoever asks it next; the label lets a later run sweep.
            with contextlib.suppress(Exception):
                docker_engine.remove_container(self._client, container)
                # It returns at once where another thread removes it; nothing may be left when we are done.
                self._api.wait(container, condition="removed", timeout=_REMOVAL_SECONDS)
        if self._proxy is not None:
            self._proxy.close()

    def __enter__(self) -> DockerWorkspace:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the container."""
        self.close()

    def _make(self, sandbox: DockerSandbox, task: Task, image: TaskImage, slot: Slot) -> None:
        from docker.types import Mount

        site = self._site
        host = {**host_options(site.limits, slot), "network_mode": site.network_mode}
        if site.allowed is not None:
            self._proxy = Proxy(site.allowed, self._heard)
            # Read-only: a socket can be connected to all the same, but not replaced.
            host["mounts"] = [Mount(relay.MOUNT, str(self._proxy.folder), type="bind", read_only=True)]
        with self._lock:
            created = self._api.create_container(
                image.digest,
                # Longer than the agent has. In an image with another first program of this name, it ends at once.
                entrypoint=["sleep", str(int(site.seconds + _LEFT_SECONDS))],
                user="0:0",
                # As for a candidate: the engine's default runtime could be one that gives GPUs to whoever asks.
                environment={"NVIDIA_VISIBLE_DEVICES": "void"},
                labels={docker_engine.OWNER_LABEL: docker_engine.owner(), **CONTAINER_LABELS},
                host_config=self._api.create_host_config(**host),
                use_config_proxy=False,
                **({"hostname": "localhost"} if site.network_mode == "none" else {}),
            )
            self.container = str(created["Id"])
        self._start()
        local = docker_engine.is_local(self._client)
        self._engine_disk = EngineDisk(str(self._client.info().get("DockerRootDir") or "") if local else "")
        self._disk = DiskWatch(self._written_bytes, site.limits.disk_bytes)
        prepared = self._run(
            [_PREPARE, "ml-bench", f"{TMP_ASSETS}/{task.task_id}", self._folder], _START_SECONDS, cwd="/"
        )
        if prepared.status != 0:
            said = prepared.stderr.head.strip() or f"status {prepared.status}"
            raise WorkspaceError(f"an agent cannot work in image {image.digest}: {said}")
        if not prepared.stdout.head:
            self._variables.setdefault("HOME", "/tmp")
        if said := self._start_relay():
            raise WorkspaceError(f"an agent in image {image.digest} cannot reach its proxy: {said}")
        self._disk.start()

    def _start(self) -> None:
        self._api.start(self.container)
        self._first = int(self._api.inspect_container(self.container)["State"]["Pid"])
        self._usage = CgroupReader(self._first, self.container)

    def _start_relay(self) -> str:
        """Start what brings the agent to its proxy, if it has one; return why that failed, empty where it did not."""
        if self._proxy is None:
            return ""
        ended = self._run([relay.START, "ml-bench", relay.PROGRAM], _START_SECONDS, cwd="/")
        lines = ended.stderr.head.strip().splitlines()
        return "" if ended.status == 0 else lines[-1] if lines else f"status {ended.status}"

    def _heard(self, facts: Mapping[str, Any]) -> None:
        # The agent's own next step finds the file unwritable, too, and can say so.
        with contextlib.suppress(RunError):
            self.record(NETWORK, facts)

    def _check(self) -> None:
        """Look whether the agent may go on.

        Raises:
            BudgetSpent: it may not.
            WorkspaceError: the sandbox failed.
        """
        self._require_alive()
        try:
            full = self._disk is not None and self._disk.is_full()
        except Exception as error:
            raise WorkspaceError(f"the agent's files cannot be measured: {docker_engine.one_line(error)}") from error
        if full:
            raise self._meter.end("disk", f"more than {self._site.limits.disk_bytes} bytes were written")
        self._meter.check()

    def _require_alive(self) -> None:
        if self._aborted:
            raise WorkspaceError("the run was stopped")
        self._engine_disk.look()
        if self._engine_disk.was_full:
            raise WorkspaceError("the disk of the engine is full; make room on it")

    def _run(
        self, script: list[str], seconds: float, standard_input: bytes = b"", *, kept: int = 0, cwd: str = ""
    ) -> _Ended:
        """Run a script of bash as the agent's user, to its end or a limit.

        Raises:
            WorkspaceError: the engine failed.
        """
        for attempt in (1, 2):
            try:
                with _Running(self, script, seconds, standard_input, kept or self._site.limits.kept_bytes, cwd) as one:
                    return one.follow()
            except WorkspaceError:
                raise
            except Exception as error:
                if self._aborted:
                    raise WorkspaceError("the run was stopped") from error
                if attempt == 2:
                    said = docker_engine.one_line(error)
                    raise WorkspaceError(f"the engine failed while a command ran: {said}") from error
            # What the agent has left, as many processes as it may have, can be what lets no command begin.
            self._kill_all()
        raise AssertionError("unreachable")

    def _alive(self) -> frozenset[int]:
        """Return the container's processes, by their numbers on this machine; nothing where that cannot be seen."""
        return frozenset(self._usage.pids())

    def _kill_new(self, before: frozenset[int]) -> None:
        """Kill what was started behind a moment, from outside; what earlier commands have left stays.

        Args:
            before: the processes that were alive then.
        """
        keep = before - {self._first}
        for _ in range(20):
            # What a process has started after it was seen is seen in the next round.
            parents = {pid: _parent(pid) for pid in self._alive()}
            new = [pid for pid in parents if pid not in before and not _descends(pid, parents, keep)]
            if not new:
                return
            for pid in new:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_TURN_SECONDS)

    def _kill_all(self) -> None:
        """End every process, and begin with none; files outside `/tmp` stay."""
        self.record("restarted", {"why": "a command could not be begun or ended in another way"})
        try:
            # It may have ended already.
            with contextlib.suppress(Exception):
                self._api.kill(self.container)
            self._start()
        except Exception as error:
            raise WorkspaceError(f"the container does not start again: {docker_engine.one_line(error)}") from error
        self._relay_ended = self._proxy is not None

    def _written_bytes(self) -> int | None:
        """Return what was written, with deleted files that are still open; see `layer_bytes`."""
        size = docker_engine.layer_bytes(self._client, self.container)
        return size if size is None or size < 0 else size + deleted_bytes(self._usage.pids())


_GAP = "\n… output left out …\n"


@dataclass(frozen=True)
class _Ended:
    """How a script ended."""

    status: int | None
    stdout: Output
    stderr: Output
    raw: bytes
    note: str = ""


class _Raw(Capture):
    """A capture that keeps bytes, for files."""

    def raw(self) -> bytes:
        return bytes(self._head + self._tail)


class _Running:
    """One script that runs in the container."""

    def __init__(
        self,
        workspace: DockerWorkspace,
        script: list[str],
        seconds: float,
        standard_input: bytes,
        kept: int,
        cwd: str,
    ) -> None:
        self._workspace, self._api = workspace, workspace._api
        self._unsent = memoryview(standard_input)
        self._stdout, self._stderr = _Raw(kept), Capture(4096)
        self._frames = Demultiplexer(self._stdout, self._stderr)
        self._began = time.monotonic()
        self._deadline = self._began + seconds
        self._before = workspace._alive()
        self._oom_kills = workspace._usage.read().oom_kills
        self._stream: Any = None
        self._id = str(
            self._api.exec_create(
                workspace.container,
                ["bash", "-c", *script],
                user=workspace._user,
                workdir=cwd or workspace.folder,
                environment=dict(workspace._variables),
                stdin=bool(standard_input),
            )["Id"]
        )
        self._stream = self._api.exec_start(self._id, socket=True)
        self._socket: Any = getattr(self._stream, "_sock", self._stream)
        self._take_buffered()

    def __enter__(self) -> _Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in (getattr(self._stream, "_response", None), self._stream, self._socket):
            if part is not None:
                # ValueError: closing one part may have closed what another one wants to flush.
                with contextlib.suppress(OSError, ValueError):
                    part.close()

    def _take_buffered(self) -> None:
        """Take what the HTTP client has read beyond the head of the engine's answer."""
        buffered = getattr(getattr(getattr(self._stream, "_response", None), "raw", None), "_fp", None)
        reader = getattr(buffered, "fp", None)
        if reader is None or not hasattr(reader, "peek"):
            return
        self._socket.settimeout(_TURN_SECONDS / 20)
        # An empty buffer is filled from the socket, which has nothing yet.
        with contextlib.suppress(TimeoutError, OSError):
            if length := len(reader.peek()):
                self._frames.feed(reader.read1(length))

    def follow(self) -> _Ended:
        look, pause = self._began, _LOOK_SECONDS[0]
        limits, disk = self._workspace._site.limits, self._workspace._disk
        while True:
            now = time.monotonic()
            if now >= self._deadline:
                return self._killed("\n… killed at its time limit …")
            if self._stdout.bytes > limits.output_bytes:
                return self._killed("\n… killed for its much output …")
            if disk is not None and disk.is_full():
                return self._killed("\n… killed: the disk is full …")
            if self._unsent:
                self._send()
            data = self._receive(_TURN_SECONDS)
            if data:
                self._frames.feed(data)
                continue
            # Its output may be held open by what it has left behind, and may end before it does.
            if data is None and now < look:
                continue
            state = self._state()
            if not state["Running"]:
                return self._ended(state)
            pause = min(_LOOK_SECONDS[1], max(_LOOK_SECONDS[0], (now - self._began) / 10))
            look = now + pause
            if data == b"":
                time.sleep(min(pause, max(0.0, self._deadline - now)))

    def _send(self) -> None:
        self._socket.settimeout(_TURN_SECONDS)
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent[:_READ_BYTES]) :]
        except TimeoutError:
            return
        except OSError:
            self._unsent = self._unsent[:0]

    def _receive(self, seconds: float) -> bytes | None:
        """Return what came: None for nothing yet, `b""` for nothing any more."""
        self._socket.settimeout(seconds)
        try:
            return bytes(self._socket.recv(_READ_BYTES))
        except TimeoutError:
            return None

    def _state(self) -> dict[str, Any]:
        return dict(self._api.exec_inspect(self._id))

    def _ended(self, state: Mapping[str, Any]) -> _Ended:
        end = time.monotonic() + 1.0
        while time.monotonic() < end and (data := self._receive(_QUIET_SECONDS)):
            self._frames.feed(data)
        if state.get("ExitCode") is None:
            raise WorkspaceError("the engine does not know how a command ended")
        return self._told(int(state["ExitCode"]))

    def _killed(self, note: str) -> _Ended:
        """End the script, and all that it has started."""
        self._workspace._kill_new(self._before)
        end = time.monotonic() + _KILL_SECONDS
        while self._state()["Running"]:
            if time.monotonic() > end:
                self._workspace._kill_all()
                break
            time.sleep(_LOOK_SECONDS[0])
        while data := self._receive(_QUIET_SECONDS):
            self._frames.feed(data)
            if time.monotonic() > end:
                break
        return self._told(None, note)

    def _told(self, status: int | None, note: str = "") -> _Ended:
        kills = self._workspace._usage.read().oom_kills - self._oom_kills
        if kills > 0:
            note += "\n… the kernel killed a process: out of memory …"
        return _Ended(status, self._stdout.output(), self._stderr.output(), self._stdout.raw(), note)


def _fault_of(command: str) -> str:
    """Return why a command cannot be run, empty where it can."""
    if "\0" in command:
        return "a command cannot hold a NUL"
    length = len(command.encode("utf-8", "surrogatepass"))
    if length > COMMAND_BYTES:
        return f"the command has {length} bytes, more than {COMMAND_BYTES}: write it into a file, and run that"
    return ""


def _parent(pid: int) -> int:
    """Return a process's parent, 0 where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return int(fields[1])
    except (OSError, ValueError, IndexError):
        return 0


def _descends(pid: int, parents: Mapping[int, int], ancestors: Iterable[int]) -> bool:
    """Whether one of some processes is above another one."""
    above = set(ancestors)
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        if pid in above:
            return True
    return False
