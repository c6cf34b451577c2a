"""No network, the quick way: a loopback of its own for every container, without the engine's network setup.

An engine sets up even "no network" with a helper process per container, which costs about as much as all the rest of
it (`benchmarks/overhead.py`). A container whose network is disabled has the same loopback, made by the kernel, but
nobody writes its `/etc/hosts`, and programs that look up `localhost` (torchrun, MPI, any local server) would fail. So
one container per sandbox is made in the ordinary way, and the file that the engine has written for it is shown,
read-only, to all the others. The engine itself finds the file: this works for an engine elsewhere, too.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ml_bench_metric.sandbox.docker_engine import remove_container

if TYPE_CHECKING:
    from docker import DockerClient

_SECONDS = 60
"""Deadline for a container that does next to nothing."""

# With nothing but bash, which every candidate needs too.
_LOOKS_RIGHT = """
case "$(</etc/hosts)" in *[[:space:]]localhost*) ;; *) exit 2 ;; esac
while read -r name _; do
    case "$name" in Inter-*|face|lo:*) ;; *) exit 3 ;; esac
done < /proc/net/dev
: < /dev/tcp/localhost/9 && exit 4
exit 0
"""


class NoNetwork:
    """How the containers of a sandbox come to have no network. Methods may be called from any thread."""

    def __init__(self, client: DockerClient, labels: Mapping[str, str]) -> None:
        """Make nothing yet.

        Args:
            client: of the engine.
            labels: of the containers that this makes.
        """
        self._client = client
        self._labels = dict(labels)
        self._lock = threading.Lock()
        self._known = False
        self._pattern = ""
        self._quick: Mapping[str, Any] | None = None

    def options(self, image: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return what is added to the options of `APIClient.create_container` and of `create_host_config`.

        Whether the engine does as described above is tried out once, with two containers.

        Args:
            image: digest of the image in which it is tried out.

        Raises:
            docker.errors.DockerException: the engine makes no containers.
        """
        with self._lock:
            if not self._known:
                self._try_out(image)
                self._known = True
            quick = self._quick
        if quick is None:
            return {}, {}
        return {"network_disabled": True}, quick

    def hear(self, error: str) -> None:
        """Take notice of an engine's error: where somebody has removed what containers share, it is made again."""
        with self._lock:
            if self._pattern and self._pattern in error:
                self._known = False

    def close(self) -> None:
        """Remove what was made. The next container makes it again, should there be one.

        Raises:
            docker.errors.DockerException: the engine does not answer.
        """
        with self._lock:
            self._known = False
            pattern, self._pattern = self._pattern, ""
        if pattern:
            remove_container(self._client, pattern)

    def _try_out(self, image: str) -> None:
        from docker.errors import APIError
        from docker.types import Mount

        self._quick = None
        api = self._client.api
        self._pattern = self._make(image, ":", {})
        try:
            api.start(self._pattern)
            api.wait(self._pattern, timeout=_SECONDS)
            quick = {
                "mounts": [
                    Mount("/etc/hosts", api.inspect_container(self._pattern)["HostsPath"], type="bind", read_only=True)
                ],
                # As in the ordinary way.
                "sysctls": {"net.ipv6.conf.all.disable_ipv6": "1"},
            }
            trial = self._make(image, _LOOKS_RIGHT, quick, network_disabled=True)
            try:
                api.start(trial)
                if int(api.wait(trial, timeout=_SECONDS)["StatusCode"]) == 0:
                    self._quick = quick
            finally:
                remove_container(self._client, trial)
        except (APIError, KeyError, TypeError, ValueError):
            # An engine without such files or options: the ordinary way is slower, and always works.
            return

    def _make(self, image: str, script: str, host_options: Mapping[str, Any], **options: Any) -> str:
        api = self._client.api
        host = api.create_host_config(network_mode="none", **host_options)
        created = api.create_container(
            image, ["-c", script], entrypoint=["bash"], labels=self._labels, host_config=host, **options
        )
        return str(created["Id"])
