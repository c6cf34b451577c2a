"""The sandbox for places without containers: each candidate is a process, in a copy of its repository's folder.

It is no wall, and runs only where `HF_ALLOW_CODE_EVAL=1` says that this is known. Outcomes, limits and the way they are
found out are those of containers, as far as a process can have them:

- A supervisor for each candidate (`process_supervisor`) is the subreaper of everything that the candidate starts, so
  that nothing gets away from the time limit, and nothing outlives this process, even where it is killed.
- As root, each candidate is a user of its own whom nobody else is, without capabilities and new privileges: it cannot
  signal, trace or read what others have closed to strangers. What it leaves in `/tmp`, `/var/tmp`, `/dev/shm`,
  `/dev/mqueue`, `/run/lock` and as System V objects is removed. Where cgroups may be made, memory, processes and CPUs
  are limited by one, v1 or v2.
- Its folder, `HOME` and `TMPDIR` are its own and are removed behind it. Of the environment it has nothing but the
  task's variables and a minimal `PATH`; its input is empty.

What it cannot do, whoever runs it:

- The network is open: the internet, the machine's own services, the metadata address of a cloud.
- Every file that is open to all users can be read: the references, the predictions, other programs' data. The rest of
  the machine is visible (processes and their arguments, mounts, devices), and so is that this is no container.
- `/workspace/…` does not exist: the repository is elsewhere. A program that names the absolute path fails.
- An overlay may change the repository's own folder and nothing else, and not through a link. One that leaves no folder
  to run in is an environment error.
- `/tmp` and `/dev/shm` are the machine's: candidates meet there, and `tmp_bytes` and `shm_bytes` are not kept (what is
  stored there counts as disk). No system call is filtered: a fault of the kernel is open to it.
- The interpreter and its packages are the machine's, and so is the kernel's scheduler: what else runs here is felt.
- There are no GPUs to own.

What it cannot do where it is not run by root, besides:

- A candidate is this very user: it can read and change all of this user's files, kill and trace this user's processes,
  the harness itself among them, and change the folder that it was copied from (which is noticed: an environment error).
- What it leaves outside its own folder stays, and is not counted as disk.
- Memory is limited for each process (`RLIMIT_DATA`) and the sum is measured a few times a second: an allocation beyond
  the limit fails instead of being killed, which ends as `exited`, and a quick one may pass unseen. The CPUs of a slot
  are only where it begins: it can take others. The limit of processes counts all of this user's.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from ml_bench_metric.sandbox import docker_engine, process_host
from ml_bench_metric.sandbox.process_cgroup import find_cgroup
from ml_bench_metric.sandbox.process_image import fingerprint, stamp
from ml_bench_metric.sandbox.process_prepared import FOLDER_PREFIX, OWNER_FILE, ProcessPrepared
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Capacity, Job, SandboxError, Slot

ALLOW_VARIABLE = "HF_ALLOW_CODE_EVAL"
"""Environment variable that says, as for `evaluate`'s own `code_eval`, that strangers' code may run here."""

WARNING = (
    "candidates run as processes of this machine, not in containers: they reach the network and every file that is "
    "open to {whom}; SECURITY.md lists what is not stopped"
)


class ProcessSandbox:
    """Executes candidates as processes; an image is a folder that has repositories. Methods are safe in any thread."""

    kind = "process"

    def __init__(self, *, warn: Callable[[str], None] | None = None, removers: int = 2) -> None:
        """Look what this machine allows, and say plainly what this is.

        Args:
            warn: receives the warning and what else a person should know, a line each; by default standard error does.
            removers: number of threads that remove what candidates leave.

        Raises:
            SandboxError: nobody has allowed it, or the machine lacks what it needs; the message says what to do.
        """
        if os.environ.get(ALLOW_VARIABLE) != "1":
            raise SandboxError(
                f"the process sandbox does not stop hostile programs: set {ALLOW_VARIABLE}=1 if that is acceptable "
                "here, or use containers"
            )
        if sys.platform != "linux":
            raise SandboxError("the process sandbox needs Linux; use containers")
        tell = warn or (lambda line: print(f"warning: {line}", file=sys.stderr))
        self.programs = process_host.require("bash", "timeout", "du", "rm", "chmod")
        self.own_users = process_host.gives_users()
        self.python = process_host.find_python(self.own_users)
        tell(WARNING.format(whom="all users" if self.own_users else "this user"))
        if self.python.note:
            tell(self.python.note)
        self._owner = docker_engine.owner()
        self._folders: dict[str, tuple[Path, str]] = {}
        self._removers = ThreadPoolExecutor(removers, thread_name_prefix="ml-bench-remove")
        self._alive: set[ProcessPrepared] = set()
        self._lock = threading.Lock()
        self.swept = sweep()

    def image_digest(self, image: str) -> str:
        """See `Sandbox.image_digest`: a fingerprint of the folder's files, and of the Python that candidates get."""
        if image in self._folders:
            return image
        folder = Path(image).expanduser().resolve()
        if not folder.is_dir():
            raise SandboxError(f"{image} is no folder; give one that has the repositories as its folders")
        with self._lock:
            for digest, (known, _) in self._folders.items():
                if known == folder:
                    return digest
            # Before it is read: a change on the way is noticed by the first candidate.
            before = stamp(folder)
            digest = fingerprint(folder, self.python.description)
            self._folders[digest] = (folder, before)
            return digest

    def capacity(self) -> Capacity:
        """See `Sandbox.capacity`."""
        return Capacity(
            cpus=tuple(sorted(os.sched_getaffinity(0))),
            memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            description=f"processes of {'root' if self.own_users else 'a user'}, Linux {platform.release()}, "
            f"{self.python.path}",
            load=os.getloadavg()[0],
        )

    def prepare(self, job: Job, slot: Slot = ANY_SLOT) -> ProcessPrepared:
        """See `Sandbox.prepare`. `Job.user` is not used: the candidate is a user of its own, or this one."""
        if job.limits.gpus:
            raise SandboxError("the process sandbox gives no GPU to a candidate: use containers, or run without --gpus")
        digest = self.image_digest(job.image)
        folder, before = self._folders[digest]
        if stamp(folder) != before:
            raise SandboxError(f"{folder} has changed since its fingerprint was taken: begin a new run")
        prepared = ProcessPrepared(self, job, slot, digest, folder)
        with self._lock:
            self._alive.add(prepared)
        return prepared

    def close(self) -> None:
        """See `Sandbox.close`."""
        with self._lock:
            left = list(self._alive)
        for prepared in left:
            prepared.discard()
        self._removers.shutdown(wait=True)

    def __enter__(self) -> ProcessSandbox:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def make_folder(self) -> Path:
        """Return a new folder that a later run sweeps should this process be killed."""
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        (folder / OWNER_FILE).write_text(self._owner, encoding="utf-8")
        # Others pass through, to the parts that are theirs, but do not look around.
        folder.chmod(0o711)
        return folder

    def remove_later(self, prepared: ProcessPrepared) -> None:
        """Remove in the background what a candidate leaves."""

        def remove() -> None:
            prepared.remove()
            with self._lock:
                self._alive.discard(prepared)

        self._removers.submit(remove)


def sweep(place: Path | None = None) -> int:
    """Remove the folders, and the cgroups, that ended harnesses of this machine left, and no other; return how many.

    Args:
        place: where they are; by default the folder of temporary files.
    """
    swept = 0
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{FOLDER_PREFIX}*"):
        try:
            label = (folder / OWNER_FILE).read_text(encoding="utf-8")
            # Whoever made the folder wrote the label, and it is removed as this user.
            ours = folder.lstat().st_uid == os.geteuid() and not folder.is_symlink()
        except (OSError, json.JSONDecodeError):
            continue
        if ours and docker_engine.is_dead(label):
            find_cgroup(folder.name).remove()
            process_host.remove_all([folder])
            swept += 1
    return swept
