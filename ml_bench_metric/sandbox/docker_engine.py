"""The Docker engine: getting a client, saying what is wrong in one line, and sweeping what dead harnesses left."""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_bench_metric.sandbox.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

OWNER_LABEL = "ml-bench.owner"
"""Label of every container of a harness: which process made it, see `owner`."""

CALL_SECONDS = 60
"""Deadline, in seconds, of every call to the engine that does not wait for a candidate."""


def connect() -> DockerClient:
    """Return a client of the engine that `DOCKER_HOST` names, by default the local one.

    Raises:
        SandboxError: no engine answers; the message says how to get one.
    """
    import docker
    from docker.errors import DockerException

    host = os.environ.get("DOCKER_HOST", "the local Docker engine")
    try:
        client = docker.from_env(version="auto", timeout=CALL_SECONDS, max_pool_size=128)
    except (DockerException, ValueError) as error:
        raise SandboxError(
            f"no answer from {host}: {one_line(error)}. Start Docker (in a checkout: `make engine`), or set "
            "DOCKER_HOST; `docker info` must work for this user."
        ) from error
    if is_local(client):
        # A socket has no proxy. Looking for one reads all environment variables at every call, which fails when another
        # thread changes one.
        client.api.trust_env = False
    set_deadlines(client)
    return client


def set_deadlines(client: DockerClient) -> None:
    """Let no call wait for ever: the library gives none to attaching to a container, which an engine may never answer.

    Calls that ask for no deadline by name, such as that for events, have none.
    """
    api: Any = client.api
    if isinstance(api.request, _Bounded):
        return
    api.request = _Bounded(api.request, api.timeout)


class _Bounded:
    """The request method of a client's session, with a deadline where the caller says nothing of one."""

    def __init__(self, request: Callable[..., Any], seconds: float) -> None:
        self._request, self._seconds = request, seconds

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._request(*arguments, **{"timeout": self._seconds, **options})


def is_local(client: DockerClient) -> bool:
    """Whether the engine is reached through a socket of this machine."""
    # How the client names a Unix socket and Windows' named pipe; `ssh` stands there for an engine elsewhere.
    return str(client.api.base_url).startswith(("http+docker://localhost", "http+docker://localnpipe"))


def require_new_connections(client: DockerClient) -> None:
    """Look whether the engine takes new connections: one that shuts down goes on to answer on those that it has.

    Raises:
        OSError: it does not.
    """
    path = getattr(client.api.get_adapter(client.api.base_url), "socket_path", None)
    if path:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(CALL_SECONDS)
            probe.connect(path)


def one_line(error: BaseException) -> str:
    """Return an engine's error as one line, its own explanation where it gives one."""
    explanation = getattr(error, "explanation", None)
    text = str(explanation or error) or type(error).__name__
    return " ".join(text.split())


def owner() -> str:
    """Return the label that says which process made a container: machine, boot, PID namespace, process, start time.

    The start time tells a process from a later one of the same number.
    """
    pid = os.getpid()
    return json.dumps({**_machine(), "pid": pid, "started": _started(pid)}, sort_keys=True)


def is_dead(label: str) -> bool:
    """Return True where the process that an owner label names is known to have ended.

    A label of another machine, of another PID namespace or of unknown form is never called dead: engines are shared.
    """
    try:
        found = json.loads(label)
        pid, started = int(found["pid"]), found["started"]
        theirs = {key: found[key] for key in ("host", "boot", "namespace")}
    except (ValueError, TypeError, KeyError):
        return False
    ours = _machine()
    if theirs["host"] != ours["host"] or not ours["boot"]:
        return False
    if theirs["boot"] != ours["boot"]:
        return True
    if theirs["namespace"] != ours["namespace"]:
        return False
    return bool(_started(pid) != started)


def sweep(client: DockerClient) -> int:
    """Remove the containers that ended harnesses of this machine left, and no other; return how many."""
    removed = 0
    for found in list_containers(client):
        if is_dead(found["Labels"].get(OWNER_LABEL, "")):
            remove_container(client, found["Id"])
            removed += 1
    return removed


def list_containers(client: DockerClient) -> list[Mapping[str, Any]]:
    """Return the engine's records of every container, running or not, that a harness made."""
    try:
        records = client.api.containers(all=True, filters={"label": OWNER_LABEL})
    except Exception as error:
        raise SandboxError(f"the Docker engine could not list its containers: {one_line(error)}") from error
    return list(records)


def layer_bytes(client: DockerClient, container: str) -> int | None:
    """Return the size of a container's writable layer, without deleted files that are still open.

    Negative where the engine cannot walk the layer, for example through folders too deep for a path: Docker says so
    itself, Podman by an error. None where that takes longer than any call may: the more files there are, the longer.

    Raises:
        docker.errors.DockerException: the engine failed.
    """
    from docker.errors import APIError
    from requests.exceptions import ReadTimeout

    try:
        records = client.api.containers(all=True, size=True, filters={"id": container})
    except ReadTimeout:
        return None
    except APIError as error:
        if "name too long" not in str(error):
            raise
        return -1
    return int(records[0].get("SizeRw") or 0) if records else 0


def remove_container(client: DockerClient, container: str) -> None:
    """Kill and remove a container and its anonymous volumes; one that is gone, or going, is fine."""
    from docker.errors import APIError, NotFound

    try:
        client.api.remove_container(container, v=True, force=True)
    except NotFound:
        return
    except APIError as error:
        # 409: somebody else is removing it.
        if error.status_code != 409:
            raise


def _machine() -> dict[str, str]:
    return {
        "host": platform.node(),
        "boot": _read(Path("/proc/sys/kernel/random/boot_id")),
        "namespace": _namespace(),
    }


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return a process's start time in clock ticks since boot, empty where there is no such process."""
    # The command's name may hold blanks and brackets, so fields are counted behind the last bracket; the start time is
    # field 22 of proc(5)'s stat, the 20th behind the name.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else ""
