"""GPUs: which ones an engine can give to candidates, and what to do where it cannot.

Two ways lead a GPU into a container, and the id says which one is meant: a UUID (`GPU-…`, `MIG-…`) goes through
NVIDIA's hook, as `docker run --gpus` does; `nvidia.com/gpu=…` is a CDI device that the engine knows by itself.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import Job, Sandbox, Slot

if TYPE_CHECKING:
    from docker.types import DeviceRequest

CDI_KIND = "nvidia.com/gpu="
"""How the names of NVIDIA's CDI devices begin."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable of this process: the GPUs of this machine that it may use."""

WAY_OUT = (
    "install NVIDIA's driver (`nvidia-smi -L` lists the GPUs) and the nvidia-container-toolkit, restart Docker, and "
    "see that `docker run --rm --gpus all debian:12 nvidia-smi` works; or run without --gpus"
)

_LIST_SECONDS = 60.0
"""Deadline of `nvidia-smi -L`; where the driver is not kept loaded it takes some seconds."""

_LISTED = re.compile(r"\s*(GPU|MIG\b.*\bDevice)\s+(\d+):.*\(UUID:\s*(\S+)\)\s*")
"""A line of `nvidia-smi -L`: a GPU, or below it one of the parts that it is divided into."""

_NUMBER = re.compile(r"(?:gpu|mig)?(\d+)(?::(\d+))?")
"""Name of a CDI device that is a number: `0` a GPU, `0:1` a part of it; `gpu0` and `mig0:1` are another style."""


def engine_gpus(info: Mapping[str, Any], *, local: bool) -> tuple[str, ...]:
    """Return the ids of the GPUs that an engine can give to containers, each GPU once; empty where there is none.

    A GPU that is divided (MIG) is not among them: its parts are. What the engine lists itself comes first (Docker 28.2
    or newer, after `nvidia-ctk cdi generate`); else the driver of this machine is asked. On this machine `VISIBLE`
    counts: of its numbers, those of `nvidia-smi`, which are CUDA's where `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`.

    Args:
        info: what the engine says of itself (`GET /info`).
        local: whether the engine is on this machine.
    """
    named = _of_engine(info) or (_of_driver() if local else {})
    visible = os.environ.get(VISIBLE) if local else None
    if visible is None:
        return _each_once(named)
    asked = [name.strip() for name in visible.split(",")]
    return tuple(dict.fromkeys(named[name] for name in asked if name in named))


def device_requests(limits: Limits, slot: Slot) -> list[DeviceRequest]:
    """Return what to ask an engine for, in the words of its API; empty where the candidate owns no GPU."""
    from docker.types import DeviceRequest

    if not limits.gpus:
        return []
    if not slot.gpus:
        return [DeviceRequest(count=limits.gpus, capabilities=[["gpu"]])]
    if slot.gpus[0].startswith(CDI_KIND):
        return [DeviceRequest(driver="cdi", device_ids=list(slot.gpus))]
    return [DeviceRequest(device_ids=list(slot.gpus), capabilities=[["gpu"]])]


def shortage(wanted: int, found: int) -> str:
    """Return the line that says that an engine has fewer GPUs than one candidate is to own, and what to do."""
    each = f"each candidate is to own {counted(wanted)}"
    restricted = f" of those that {VISIBLE}={os.environ[VISIBLE]} allows" if VISIBLE in os.environ else ""
    if found:
        return f"{each}, and the engine has {found}{restricted}: give --gpus {found} or less"
    remote = "; an engine on another machine must list them itself as CDI devices (Docker 28.2 or newer)"
    return f"{each}, and the engine has none{restricted}: {WAY_OUT}{remote}"


def explained(said: str) -> str:
    """Return an engine's error, with what to do where it is about a GPU that a container could not get."""
    if not re.search(r"gpu|nvidia|cdi|cuda|nvml", said, re.IGNORECASE):
        return said
    anew = "write the list of CDI devices anew (`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`), or "
    return f"{said}; the engine gives no GPU: {anew if 'CDI' in said else ''}{WAY_OUT}"


def try_out(sandbox: Sandbox, image: str, user: str, limits: Limits, slot: Slot) -> None:
    """Make and remove one sandbox with a worker's GPUs, so that an engine that gives none says so once.

    Raises:
        SandboxError: it cannot be made; the message says what to do.
    """
    sandbox.prepare(Job("true", "bash", image, "/", limits, user=user), slot).discard()


def counted(number: int) -> str:
    """Return `1 GPU`, `2 GPUs`."""
    return f"{number} GPU{'' if number == 1 else 's'}"


def _of_engine(info: Mapping[str, Any]) -> dict[str, str]:
    """Return every name of each GPU -> its id, of the CDI devices that an engine lists."""
    ids = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()]
    return {name.removeprefix(CDI_KIND): name for name in ids if name.startswith(CDI_KIND)}


def _of_driver() -> dict[str, str]:
    """Return every name of each GPU of this machine (number, UUID) -> its UUID; empty without a driver that works."""
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIST_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    named: dict[str, str] = {}
    number = uuid = ""
    for line in listing.stdout.splitlines() if listing.returncode == 0 else ():
        found = _LISTED.fullmatch(line)
        if not found:
            continue
        if found[1] == "GPU":
            number, uuid = found[2], found[3]
            named[number] = named[uuid] = uuid
        else:
            # A GPU that is divided cannot be had whole.
            named.pop(number, None)
            named.pop(uuid, None)
            named[f"{number}:{found[2]}"] = named[found[3]] = found[3]
    return named


def _each_once(named: Mapping[str, str]) -> tuple[str, ...]:
    """Return one id for each GPU, in the order of their numbers."""
    numbered: dict[tuple[int, ...], str] = {}
    for name, gpu in named.items():
        if found := _NUMBER.fullmatch(name):
            numbered.setdefault(tuple(int(part) for part in found.groups() if part), gpu)
    if numbered:
        return tuple(numbered[number] for number in sorted(numbered))
    # Under the `uuid` style no device has a number; and some engines (WSL) have one device alone, for all GPUs.
    return tuple(gpu for name, gpu in sorted(named.items()) if name != "all") or tuple(named.values())
