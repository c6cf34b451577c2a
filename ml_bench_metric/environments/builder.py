"""One layer of an image: a container in which steps run and into which files are copied, then a commit.

This needs nothing of the engine but its plain API: no BuildKit, no buildx.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.host_settings import PREFIX, HostSettings
from ml_bench_metric.environments.images import BUILDER
from ml_bench_metric.sandbox.docker_engine import is_dead, owner, remove_container

if TYPE_CHECKING:
    from docker import DockerClient

REMOVAL_SECONDS = 60
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
VARIABLES: Mapping[str, str] = {"PATH": _PATH, "HOME": "/home/candidate", "LANG": "C.UTF-8"}
"""Environment variables of every image."""


class StepFailed(BuildError):  # noqa: N818 - it names the situation
    """A step ended with a status other than 0; the container goes on."""


class Builder:
    """A running container of an image, as a context manager; it is removed however the block is left.

    Should this process be killed, its end of the container's standard input closes, the container's only program ends
    and the engine removes it.
    """

    def __init__(
        self,
        client: DockerClient,
        image: str,
        log: BuildLog,
        settings: HostSettings,
        *,
        network: bool = True,
        platform: str = "",
    ) -> None:
        """Say what the container is made from.

        Args:
            client: of the engine.
            image: name or digest.
            log: of the build.
            settings: of the host, for the steps.
            network: whether the steps have the host's network, or none.
            platform: of the image, such as `linux/arm64`; empty for the engine's own.
        """
        self._client = client
        self._api: Any = client.api
        self._image = image
        self._log = log
        self._settings = settings
        self._network = network
        self._platform = platform
        self._container = ""
        self._stdin: Any = None

    def __enter__(self) -> Builder:
        from docker.types import Mount

        mounts = [Mount(seen, path, type="bind", read_only=True) for path, seen in self._settings.mounts.items()]
        host = self._api.create_host_config(
            auto_remove=True,
            network_mode="host" if self._network else "none",
            # Mount points are made in the memory file system: a commit does not see them.
            tmpfs={str(Path(PREFIX).parent): ""},
            mounts=mounts,
        )
        with self._log.step("start a container"):
            self._container = self._api.create_container(
                self._image,
                # As entrypoint, it leaves the image's CMD empty, which a commit could not do later.
                entrypoint=["cat"],
                stdin_open=True,
                host_config=host,
                labels={BUILDER: owner()},
                use_config_proxy=False,  # it would put the proxies into the image
                platform=self._platform or None,
            )["Id"]
            try:
                self._stdin = self._api.attach_socket(self._container, params={"stdin": 1, "stream": 1})
                self._api.start(self._container)
            except BaseException:
                self._remove()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()
        self._stdin.close()

    def _remove(self) -> None:
        from docker.errors import NotFound

        remove_container(self._client, self._container)
        # It returns at once where the engine is removing the container already; nothing may be left when we are done.
        with contextlib.suppress(NotFound):
            self._api.wait(self._container, condition="removed", timeout=REMOVAL_SECONDS)

    def run(
        self,
        step: str,
        script: str,
        *,
        seconds: float,
        user: str = "0:0",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Run a POSIX shell script in the container, with the host's settings.

        Args:
            step: its name, for progress, log and errors.
            script: for `sh -eu`.
            seconds: time limit.
            user: uid and gid.
            variables: on top of the image's and the host's.

        Raises:
            StepFailed: it ended with a status other than 0.
            BuildError: it reached the time limit, or the engine failed.
        """
        # Unbuffered, so that the log is in the order of events.
        environment = {"HOME": "/root", "PYTHONUNBUFFERED": "1", **self._settings.variables, **(variables or {})}
        with self._log.step(step):
            over = threading.Event()
            ending: list[BuildError] = []

            def watch() -> None:
                try:
                    if self._log.ended(over.wait, seconds):
                        return
                    ending.append(self._log.error(step, f"not finished after {seconds:.0f} s"))
                except BuildError as error:
                    ending.append(error)
                # The one way to end a step that works whatever the step does.
                self._remove()

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            try:
                run = self._api.exec_create(
                    # One stream for both: as two, the engine mixes them up, and the reason comes before what led to it.
                    self._container,
                    ["sh", "-euc", "exec 2>&1\n" + script],
                    environment=environment,
                    user=user,
                )["Id"]
                for chunk in self._api.exec_start(run, stream=True):
                    self._log.write(chunk)
                status = None if ending else self._api.exec_inspect(run)["ExitCode"]
            except Exception as error:
                if not ending:
                    raise
                raise ending[0] from error
            finally:
                over.set()
                watcher.join()
            if ending:
                raise ending[0]
            if status != 0:
                raise StepFailed(self._log.error(step, f"ended with status {status}"))

    def put(self, folder: str, archive: IO[bytes]) -> None:
        """Unpack a tar archive into a folder of the container; owners and modes are the archive's.

        For a container without the host's files: the engine would make their mount points in the image.
        """
        if not self._api.put_archive(self._container, folder, archive):
            raise BuildError(f"the engine did not take the files for {folder}")

    def commit(self, name: str, *, labels: Mapping[str, str], variables: Mapping[str, str]) -> str:
        """Make an image of the container's present state, and return its digest `sha256:…`.

        The image has no user, entrypoint or command; its working folder is `/workspace`. Of this process' environment
        nothing is in it: the host's settings were given to the steps, not to the container.
        """
        repository, _, tag = name.rpartition(":")
        with self._log.step(f"save as {name}"):
            return str(
                self._api.commit(
                    self._container,
                    repository,
                    tag,
                    conf={
                        "Entrypoint": [],
                        "Env": [f"{key}={value}" for key, value in {**VARIABLES, **variables}.items()],
                        "Labels": {**labels, BUILDER: ""},
                        "WorkingDir": "/workspace",
                    },
                )["Id"]
            )


def sweep(client: DockerClient) -> None:
    """Remove the builders of processes that were killed, which only those need that were killed before the start."""
    for container in client.api.containers(all=True, filters={"label": BUILDER}):
        if is_dead(container["Labels"][BUILDER]):
            remove_container(client, container["Id"])
