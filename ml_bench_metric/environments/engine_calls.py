"""Calls to the Docker engine that take long or fail: how long they may take, and one line that says what failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ml_bench_metric.sandbox.docker_engine import one_line
from ml_bench_metric.sandbox.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

PATIENCE_SECONDS = 1800
"""How long the engine may take for one answer: writing an image of many gigabytes on a slow disk takes minutes."""


@contextlib.contextmanager
def patient(client: DockerClient) -> Iterator[None]:
    """Let calls take up to `PATIENCE_SECONDS` while this lasts."""
    before = client.api.timeout
    client.api.timeout = max(before or 0, PATIENCE_SECONDS)
    try:
        yield
    finally:
        client.api.timeout = before


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Turn what the engine refuses into one line.

    Args:
        what: is being done, for the message: `<what>: the Docker engine failed: …`.

    Raises:
        SandboxError: the engine refused a call, or does not answer.
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (DockerException, RequestException, HTTPError) as error:
        raise engine_failed(what, one_line(error)) from error


def engine_failed(what: str, reason: str) -> SandboxError:
    """Return the error for something that the engine would not do; where its disk is full, with the way out."""
    way_out = (
        ". Its disk is full: `ml-bench images prune` shows what can go" if "no space left" in reason.lower() else ""
    )
    return SandboxError(f"{what}: the Docker engine failed: {reason}{way_out}")
