"""Running a program of ours in an image under a candidate's conditions, to see what a candidate would find there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ml_bench_metric.sandbox.protocol import Job, SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

_KEPT_BYTES = 8 << 20


def ask_inside(client: DockerClient, image: str, program: str, *, user: str, seconds: float) -> str:
    """Return what a bash program writes to standard output in a fresh container of an image.

    The container is a candidate's: no network, no capabilities, no new privileges, removed at the end, and swept by a
    later run should this process be killed.

    Args:
        client: of the engine.
        image: name or digest.
        program: for bash; it begins in `/`.
        user: uid and gid, or names that the image knows.
        seconds: time limit.

    Raises:
        SandboxError: it could not be run, or did not end with status 0 in time; the message ends with its last words.
    """
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
    from ml_bench_metric.sandbox.limits import Limits

    limits = Limits(seconds=seconds, kept_bytes=_KEPT_BYTES)
    job = Job(program=program, language="bash", image=image, working_folder="/", limits=limits, user=user)
    with DockerSandbox(client) as sandbox:
        execution = sandbox.prepare(job).run()
    if execution.outcome == "exited" and execution.status == 0 and not execution.stdout.truncated:
        return execution.stdout.head
    said = (execution.stderr.tail or execution.stderr.head).strip().splitlines()
    status = f" with status {execution.status}" if execution.status is not None else ""
    how = execution.reason or f"{execution.outcome.replace('_', ' ')}{status}"
    raise SandboxError(f"a look into image {image} failed: {how}{': ' + said[-1] if said else ''}")
