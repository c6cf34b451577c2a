"""How a candidate's container is made: its hardening, its limits, and the prelude that waits for the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ml_bench_metric.sandbox.gpus import device_requests
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.sandbox.protocol import Job, Slot
from ml_bench_metric.tasks import SCRIPT

READY = b"ready\n"
"""What the prelude says on standard output before it reads the program."""

CLEARED = b"cleared\n"
"""What it says before that, of a candidate with an overlay, when what the overlay removes is gone."""

APPLIED = b"applied\n"
"""What it waits for then."""

CONTAINER_LABELS: Mapping[str, str] = {"ml-bench.container": "candidate"}

INSIDE_GRACE_SECONDS = 5.0
"""How much later than the limit the container ends by itself, should the harness be gone."""

_PROGRAMS = {"bash": "/tmp/ml_bench_candidate.sh", "python": "ml_bench_candidate.py"}
"""Where the program is stored. A Python program lies in the working folder, as the original judge has it, because
`sys.path` begins with the program's own folder and candidates import the repository's modules."""

# The container's process 1 is an init, which reaps orphans and cannot be killed from within. Below it runs this, as the
# candidate's user: it checks what the candidate needs, says READY, takes the program from standard input and becomes
# `timeout`, the time limit's inner keeper. Until READY only this code has run, so a failure is the image's.
_PRELUDE = """
cd -- "$1" || exit 1
for program in "$2" head timeout; do
    command -v "$program" >/dev/null || { echo "no $program in the image" >&2; exit 1; }
done
timeout --foreground --signal=KILL 5 true || { echo "the image's timeout is not that of GNU coreutils" >&2; exit 1; }
: > "$3" || { echo "user $(id -u) cannot write in $PWD" >&2; exit 1; }
[ -w "${HOME:-/}" ] || export HOME=/tmp
[ ! -d "$6" ] || cp -R -- "$6/." /tmp/ || { echo "$6 cannot be copied to /tmp" >&2; exit 1; }
echo ready
head -c "$4" > "$3"
exec timeout --foreground --signal=KILL "$5" "$2" "$3" < /dev/null
"""

# That of a `run.sh`, and of whatever has an overlay. The overlay may have put programs where the image's PATH begins,
# so what runs here is found elsewhere, and the candidate gets the image's PATH when it starts. It removes what the
# overlay removes, as the candidate's user, and waits until the engine has unpacked the rest. What fails from then on is
# the candidate's doing: an agent that makes its folder useless has failed.
_PRELUDE_OF_SCRIPTS = """
image_path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd -- "$1" || exit 1
for program in "$2" head timeout; do
    type -P "$program" > /dev/null || { echo "no $program in the image" >&2; exit 1; }
done
program=$(type -P "$2") keeper=$(type -P timeout)
timeout --foreground --signal=KILL 5 true || { echo "the image's timeout is not that of GNU coreutils" >&2; exit 1; }
is_there() { [ -e "$1" ] || [ -L "$1" ]; }
fail() {
    [ -z "$7" ] || { echo ready; exec 1>&2; }
    echo "$8"
    exit 1
}
if [ -n "$7" ]; then
    cd /
    head -c "$7" > /tmp/ml_bench_removed
    mapfile -d '' -t removed < /tmp/ml_bench_removed
    rm -f /tmp/ml_bench_removed
    for ((at = 0; at < ${#removed[@]}; at += 500)); do
        rm -rf -- "${removed[@]:at:500}" 2> /dev/null
    done
    for path in "${removed[@]}"; do
        is_there "$path" || continue
        chmod u+rwx -- "${path%/*}/" 2> /dev/null
        [ -L "$path" ] || chmod -R u+rwX -- "$path" 2> /dev/null
        rm -rf -- "$path" 2> /dev/null
        ! is_there "$path" || { echo "user $(id -u) cannot remove $path" >&2; exit 1; }
    done
    unset removed path
    echo cleared
    read -r line
    [ "$line" = applied ] || exit 1
fi
cd -- "$1" 2> /dev/null || fail "$@" "the task's folder $1 cannot be entered"
[ "$3" != run.sh ] || rm -rf -- run.sh
: 2> /dev/null > "$3" || fail "$@" "user $(id -u) cannot write in $PWD"
[ -w "${HOME:-/}" ] || export HOME=/tmp
[ ! -d "$6" ] || cp -R -- "$6/." /tmp/ || { echo "$6 cannot be copied to /tmp" >&2; exit 1; }
echo ready
head -c "$4" > "$3"
PATH=$image_path exec "$keeper" --foreground --signal=KILL "$5" "$program" "$3" < /dev/null
"""


def needs_care(job: Job) -> bool:
    """Whether a job is a `run.sh`, or has an overlay."""
    return job.form == "run.sh" or job.overlay is not None


def removed_bytes(overlay: Overlay) -> bytes:
    """Return the paths that an overlay removes, as the prelude reads them."""
    return b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in overlay.deleted)


def program_bytes(job: Job) -> bytes:
    """Return the program as stored in the container: UTF-8; what Unicode cannot encode (lone surrogates) as `?`."""
    return job.program.encode("utf-8", "replace")


def create_options(job: Job) -> dict[str, Any]:
    """Return the arguments of `APIClient.create_container` for a job, but for its image, labels and host options."""
    arguments = [
        job.working_folder,
        job.language,
        SCRIPT if job.form == "run.sh" else _PROGRAMS[job.language],
        str(len(program_bytes(job))),
        f"{job.limits.seconds + INSIDE_GRACE_SECONDS:.3f}",
        job.tmp_folder,
    ]
    entry_point = ["bash", "-c", _PRELUDE, "ml-bench"]
    if needs_care(job):
        arguments.append("" if job.overlay is None else str(len(removed_bytes(job.overlay))))
        # Nothing of a home folder is read, whatever bash takes its input for.
        entry_point = ["/bin/bash", "--norc", "--noprofile", "-c", _PRELUDE_OF_SCRIPTS, "ml-bench"]
    return {
        # An image's own entry point must not get between us and the candidate.
        "entrypoint": entry_point,
        "command": arguments,
        "user": job.user,
        # Images made for GPUs ask for all of them in this variable, and an engine whose default runtime is NVIDIA's
        # obeys, or fails where it has none. `void` asks for nothing; the engine sets its own where GPUs are given.
        "environment": {**job.variables, **({} if job.limits.gpus else {"NVIDIA_VISIBLE_DEVICES": "void"})},
        "stdin_open": True,
        # A name that resolves without a network: what looks up its own host (torchrun, MPI) would hang otherwise.
        "hostname": "localhost",
    }


def host_options(limits: Limits, slot: Slot) -> dict[str, Any]:
    """Return the arguments of `APIClient.create_host_config`: what a container may use and do.

    Args:
        limits: of the candidate.
        slot: which CPUs and GPUs it owns.
    """
    from docker.types import LogConfig, Ulimit

    owned = {"cpuset_cpus": ",".join(map(str, slot.cpus))} if slot.cpus else {"nano_cpus": limits.cpus * 10**9}
    gpus = device_requests(limits, slot)
    return {
        **owned,
        **({"device_requests": gpus} if gpus else {}),
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "ipc_mode": "private",
        "init": True,
        "mem_limit": limits.memory_bytes,
        # Equal to the memory limit means: no swap at all.
        "memswap_limit": limits.memory_bytes,
        # The init and `timeout` are not the candidate's.
        "pids_limit": limits.processes + 2,
        "shm_size": limits.shm_bytes,
        "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={limits.tmp_bytes}"},
        "ulimits": [
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="fsize", soft=limits.disk_bytes, hard=limits.disk_bytes),
        ],
        # Should the machine itself run short, a candidate goes before anything else.
        "oom_score_adj": 800,
        # The engine would store all output on the host otherwise.
        "log_config": LogConfig(type="none"),
    }
