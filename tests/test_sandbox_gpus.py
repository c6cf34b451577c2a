"""GPUs are found, given to one candidate each, and missed with the way out; no machine of ours needs to have one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from docker import APIClient
from docker.errors import APIError

from ml_bench_metric.sandbox import gpus
from ml_bench_metric.sandbox.docker_container import create_options, host_options
from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
from ml_bench_metric.sandbox.gpus import engine_gpus, explained, shortage
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import Job, SandboxError, Slot

TWO = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)\nGPU 1: NVIDIA L4 (24 GB) (UUID: GPU-bb)\n"
DIVIDED = (
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)\n"
    "  MIG 3g.20gb     Device  0: (UUID: MIG-c0)\n"
    "  MIG 1g.10gb+me  Device  1: (UUID: MIG-c1)\n"
    "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bb)\n"
)
NO_DEVICE_DRIVER = 'could not select device driver "" with capabilities: [[gpu]]'

Driver = Callable[..., Path]


@pytest.fixture(autouse=True)
def _no_gpu_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture()
def driver(tmp_path: Path) -> Driver:
    """Put an `nvidia-smi` on the path that prints a listing; return the file that has a line for each call."""

    def install(listing: str, status: int = 0, *, seconds: int = 0) -> Path:
        calls, program = tmp_path / "calls", tmp_path / "nvidia-smi"
        (tmp_path / "listing").write_text(listing, encoding="utf-8")
        program.write_text(
            f'#!/bin/sh\necho "$*" >> {calls}\n/bin/cat {tmp_path}/listing\n'
            + (f"exec /bin/sleep {seconds}\n" if seconds else f"exit {status}\n"),
            encoding="utf-8",
        )
        program.chmod(0o755)
        return calls

    return install


def _cdi(*names: str) -> Mapping[str, Any]:
    return {"DiscoveredDevices": [{"Source": "cdi", "ID": name} for name in names]}


def test_a_local_engine_has_the_gpus_that_the_driver_lists(driver: Driver) -> None:
    calls = driver(TWO)
    assert engine_gpus({}, local=True) == ("GPU-aa", "GPU-bb")
    assert calls.read_text() == "-L\n"


def test_a_divided_gpu_is_given_in_its_parts_and_not_whole(driver: Driver) -> None:
    driver(DIVIDED)
    assert engine_gpus({}, local=True) == ("MIG-c0", "MIG-c1", "GPU-bb")


def test_parts_in_the_names_of_older_drivers_are_known_too(driver: Driver) -> None:
    driver("GPU 0: A100 (UUID: GPU-aa)\n  MIG 1g.5gb Device 0: (UUID: MIG-GPU-aa/7/0)\n")
    assert engine_gpus({}, local=True) == ("MIG-GPU-aa/7/0",)


def test_a_machine_without_a_driver_has_no_gpu() -> None:
    assert engine_gpus({}, local=True) == ()
    assert engine_gpus({"DiscoveredDevices": None}, local=True) == ()


def test_a_driver_that_fails_or_hangs_means_no_gpu_and_no_crash(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(TWO, status=18)
    assert engine_gpus({}, local=True) == ()
    driver(TWO, seconds=30)
    monkeypatch.setattr(gpus, "_LIST_SECONDS", 0.2)
    assert engine_gpus({}, local=True) == ()


def test_what_the_driver_says_besides_its_list_is_no_gpu(driver: Driver) -> None:
    driver("No devices were found\nWarning: infoROM is corrupted at gpu 0000:00:1E.0\n")
    assert engine_gpus({}, local=True) == ()


def test_an_engine_elsewhere_does_not_have_the_gpus_of_this_machine(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = driver(TWO)
    assert engine_gpus({}, local=False) == ()
    assert not calls.exists()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    both = ("nvidia.com/gpu=0", "nvidia.com/gpu=1")
    assert engine_gpus(_cdi(*both), local=False) == both


def test_what_the_engine_lists_itself_comes_first_each_gpu_once_in_order(driver: Driver) -> None:
    driver(TWO)
    names = [f"nvidia.com/gpu={name}" for name in ("0", "10", "2", "GPU-aa", "GPU-bb", "GPU-cc", "all")]
    found = engine_gpus(_cdi("amd.com/gpu=0", *names, "vendor.com/nic=eth7"), local=True)
    assert found == ("nvidia.com/gpu=0", "nvidia.com/gpu=2", "nvidia.com/gpu=10")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("GPU-bb", "GPU-aa", "all"), ("GPU-aa", "GPU-bb")),
        (("gpu1", "gpu0", "0", "1", "all"), ("gpu0", "gpu1")),
        (("1", "0:1", "0:0", "all"), ("0:0", "0:1", "1")),
        (("all",), ("all",)),
    ],
)
def test_every_style_of_device_names_is_understood(names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    found = engine_gpus(_cdi(*(f"nvidia.com/gpu={name}" for name in names)), local=True)
    assert found == tuple(f"nvidia.com/gpu={name}" for name in expected)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("1", ("GPU-bb",)),
        ("1,0", ("GPU-bb", "GPU-aa")),
        (" GPU-aa , 0", ("GPU-aa",)),
        ("", ()),
        ("-1", ()),
        ("7", ()),
    ],
)
def test_gpus_that_are_not_this_processs_to_use_are_not_given_away(
    visible: str, expected: tuple[str, ...], driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert engine_gpus({}, local=True) == expected


def test_a_whole_gpu_that_is_divided_cannot_be_named_either(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(DIVIDED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,GPU-aa,MIG-c1")
    assert engine_gpus({}, local=True) == ("MIG-c1",)


@pytest.fixture()
def api() -> Iterator[APIClient]:
    # A version that is given is not asked for: no engine is needed to see what would be sent.
    client = APIClient(base_url="unix:///nonexistent/docker.sock", version="1.41")
    yield client
    client.close()


@pytest.mark.parametrize(
    ("limits", "slot", "request_"),
    [
        (
            Limits(gpus=2),
            Slot((0,), ("GPU-aa", "GPU-bb")),
            {"Driver": "", "Count": 0, "DeviceIDs": ["GPU-aa", "GPU-bb"], "Capabilities": [["gpu"]], "Options": {}},
        ),
        (
            Limits(gpus=1),
            Slot((0,), ("nvidia.com/gpu=0",)),
            {"Driver": "cdi", "Count": 0, "DeviceIDs": ["nvidia.com/gpu=0"], "Capabilities": [], "Options": {}},
        ),
        (
            Limits(gpus=2),
            Slot((0,)),
            {"Driver": "", "Count": 2, "DeviceIDs": [], "Capabilities": [["gpu"]], "Options": {}},
        ),
    ],
)
def test_a_container_asks_for_its_own_gpus_and_is_otherwise_as_closed_as_any(
    limits: Limits, slot: Slot, request_: dict[str, Any], api: APIClient
) -> None:
    sent = dict(api.create_host_config(**host_options(limits, slot)))
    assert sent.pop("DeviceRequests") == [request_]
    assert sent == dict(api.create_host_config(**host_options(Limits(), Slot(slot.cpus))))
    assert (sent["NetworkMode"], sent["CapDrop"], sent["SecurityOpt"]) == ("none", ["ALL"], ["no-new-privileges"])


def test_an_engine_that_gives_every_container_its_gpus_gives_none_to_a_candidate_without() -> None:
    def environment(count: int) -> Any:
        limits, variables = Limits(gpus=count), {"A": "b", "NVIDIA_VISIBLE_DEVICES": "all"}
        return create_options(Job("", "bash", "image", "/", limits, variables))["environment"]

    assert environment(0) == {"A": "b", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert environment(1) == {"A": "b", "NVIDIA_VISIBLE_DEVICES": "all"}


class _Socket:
    def close(self) -> None:
        pass


class _Engine:
    """A client of an engine that makes containers and fails to start them."""

    def __init__(self, error: str, info: Mapping[str, Any] | None = None, base_url: str = "") -> None:
        self.error, self.removed = error, list[str]()
        self.sent: dict[str, Any] = {}
        self.api, self.base_url = self, base_url or "http+docker://localhost"
        self.request, self.timeout = print, 60
        self._info = {"NCPU": 4, "MemTotal": 2**34, "ServerVersion": "28", "Driver": "overlay2", **(info or {})}
        self._client = APIClient(base_url="unix:///nonexistent/docker.sock", version="1.41")

    def info(self) -> Mapping[str, Any]:
        return self._info

    def inspect_image(self, image: str) -> Mapping[str, str]:
        return {"Id": image}

    def create_host_config(self, **options: Any) -> Any:
        return self._client.create_host_config(**options)

    def create_container(self, image: str, *command: object, **options: Any) -> Mapping[str, str]:
        self.sent = options
        return {"Id": "made"}

    def attach_socket(self, container: str, params: Mapping[str, int]) -> _Socket:
        return _Socket()

    def start(self, container: str) -> None:
        raise APIError("500 Server Error", explanation=self.error)

    def remove_container(self, container: str, **options: Any) -> None:
        self.removed.append(container)

    def events(self, **options: Any) -> Any:
        raise APIError("501 Not Implemented")

    def get_adapter(self, url: str) -> object:
        return None


def _prepare(engine: _Engine, limits: Limits, slot: Slot) -> str:
    job = Job("true", "bash", "image", "/", limits)
    with pytest.raises(SandboxError) as caught, DockerSandbox(engine) as sandbox:  # type: ignore[arg-type]
        sandbox.prepare(job, slot)
    return str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        NO_DEVICE_DRIVER,
        "OCI runtime create failed: error running prestart hook: nvidia-container-cli: device error: GPU-aa: unknown "
        "device",
        "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=0",
    ],
)
def test_a_container_that_cannot_get_its_gpu_says_what_to_do_and_is_removed(said: str) -> None:
    engine = _Engine(said)
    message = _prepare(engine, Limits(gpus=1), Slot((0,), ("GPU-aa",)))
    assert said in message
    assert "nvidia-container-toolkit" in message and "docker run --rm --gpus all debian:12 nvidia-smi" in message
    assert ("nvidia-ctk cdi generate" in message) == ("CDI" in said)
    assert "\n" not in message
    assert set(engine.removed) == {"made"}
    assert engine.sent["host_config"]["DeviceRequests"][0]["DeviceIDs"] == ["GPU-aa"]


def test_another_fault_of_a_container_with_a_gpu_is_not_blamed_on_the_gpu() -> None:
    assert "toolkit" not in _prepare(_Engine("no space left on device"), Limits(gpus=1), Slot((0,), ("GPU-aa",)))


def test_a_container_without_a_gpu_is_never_sent_to_the_toolkit() -> None:
    engine = _Engine("cannot mount /images/gpu")
    assert "toolkit" not in _prepare(engine, Limits(), Slot((0,)))
    assert "DeviceRequests" not in engine.sent["host_config"]


def test_the_capacity_names_the_gpus_and_asks_the_driver_once(driver: Driver) -> None:
    calls = driver(TWO)
    with DockerSandbox(_Engine("")) as sandbox:  # type: ignore[arg-type]
        assert sandbox.capacity().gpus == sandbox.capacity().gpus == ("GPU-aa", "GPU-bb")
    assert calls.read_text() == "-L\n"


@pytest.mark.parametrize("base_url", ["http+docker://ssh", "https://gpus.example:2376"])
def test_the_capacity_of_an_engine_elsewhere_tells_nothing_of_this_machine(base_url: str, driver: Driver) -> None:
    driver(TWO)
    with DockerSandbox(_Engine("", base_url=base_url)) as sandbox:  # type: ignore[arg-type]
        capacity = sandbox.capacity()
    assert (capacity.gpus, capacity.load) == ((), None)


def test_too_few_gpus_are_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shortage(2, 1) == "each candidate is to own 2 GPUs, and the engine has 1: give --gpus 1 or less"
    none = shortage(1, 0)
    assert none.startswith("each candidate is to own 1 GPU, and the engine has none: ")
    assert gpus.WAY_OUT in none and "CDI" in none and "\n" not in none
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "none of those that CUDA_VISIBLE_DEVICES=7 allows" in shortage(1, 0)


def test_only_what_is_about_gpus_is_explained() -> None:
    assert explained("no such image") == "no such image"
    assert explained(NO_DEVICE_DRIVER).startswith(NO_DEVICE_DRIVER + "; ")
