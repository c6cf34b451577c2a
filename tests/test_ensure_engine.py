"""`scripts/ensure-engine.sh` on machines that this one is not, made of fake commands."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "ensure-engine.sh"
REAL = ("bash", "cat", "grep", "rm", "setsid", "sleep", "tail", "timeout", "nohup", "touch")


class Machine:
    """A machine whose commands are fakes that write what they are asked into a file."""

    def __init__(self, folder: Path) -> None:
        self.commands = folder / "bin"
        self.commands.mkdir()
        self.calls = folder / "calls"
        self.calls.touch()
        self.up = folder / "engine-is-up"
        for name in REAL:
            found = shutil.which(name)
            assert found is not None, name
            (self.commands / name).symlink_to(found)
        self.fake("id", 'if [ "$1" = -u ]; then echo 0; else echo somebody; fi')
        self.fake("uname", "echo Linux")
        # Paths of this machine must not decide what the script does.
        self.script = folder / "ensure-engine.sh"
        text = SCRIPT.read_text()
        (folder / "etc").mkdir()
        for path in ("/etc/os-release", "/var/run", "/var/log", "/run/systemd"):
            assert path in text, path
            text = text.replace(path, f"{folder}{path}")
        self.script.write_text(text.replace("start_seconds=60", "start_seconds=2"))
        (folder / "var" / "run").mkdir(parents=True)
        (folder / "var" / "log").mkdir()
        self.pid_file = folder / "var" / "run" / "docker.pid"
        self.system = folder / "etc" / "os-release"
        self.system.write_text("NAME=Debian\nID=debian\n")

    def fake(self, name: str, body: str) -> None:
        command = self.commands / name
        command.unlink(missing_ok=True)
        command.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.calls}\n{body}\n')
        command.chmod(0o755)

    def docker(self, *, base: bool = False) -> None:
        image = "echo 123456" if base else "true"
        self.fake("docker", f'[ -e {self.up} ] || exit 1; if [ "$1" = image ]; then {image}; else echo 28.0; fi')

    def run(self, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.commands / "bash", self.script],
            env={"PATH": str(self.commands), **environ},
            capture_output=True,
            text=True,
            timeout=30,
        )

    def called(self, text: str) -> bool:
        return text in self.calls.read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    for name in ("debootstrap", "iptables"):
        made.fake(name, "true")
    made.fake("apt-get", "true")
    return made


def test_a_running_engine_is_used_as_it_is(machine: Machine) -> None:
    machine.docker()
    machine.up.touch()
    result = machine.run()
    assert result.returncode == 0
    assert "a Docker engine answers" in result.stdout
    assert not machine.called("apt-get")


def test_debootstrap_is_installed_where_no_base_image_is_there(machine: Machine) -> None:
    machine.docker()
    machine.up.touch()
    (machine.commands / "debootstrap").unlink()
    assert machine.run().returncode == 0
    assert machine.called("debootstrap debian-archive-keyring")


def test_debootstrap_is_not_installed_where_the_base_image_is_there(machine: Machine) -> None:
    machine.docker(base=True)
    machine.up.touch()
    (machine.commands / "debootstrap").unlink()
    assert machine.run().returncode == 0
    assert not machine.called("apt-get")


def test_a_debian_without_docker_gets_it_installed_and_started(machine: Machine) -> None:
    # Debian 13: the package docker.io has no command docker.
    docker = machine.commands / "docker"
    machine.docker()
    docker.rename(docker.with_name("docker-of-docker-cli"))
    (machine.commands / "iptables").unlink()
    machine.fake(
        "apt-get",
        'case "$*" in\n'
        f"*docker-cli*) cp {docker.with_name('docker-of-docker-cli')} {docker} ;;\n"
        f"*docker.io*) printf '#!/bin/sh\\ntouch {machine.up}; exec sleep 3\\n' > {machine.commands / 'dockerd'};"
        f" chmod +x {machine.commands / 'dockerd'} ;;\n"
        "esac",
    )
    (machine.commands / "cp").symlink_to(str(shutil.which("cp")))
    (machine.commands / "chmod").symlink_to(str(shutil.which("chmod")))
    result = machine.run()
    assert (result.returncode, result.stderr) == (0, "")
    assert machine.called("docker.io iptables")
    assert "the Docker engine runs" in result.stdout


@pytest.mark.parametrize("process", ["999999999", str(os.getpid()), ""])
def test_a_stale_process_number_is_removed_before_the_start(machine: Machine, process: str) -> None:
    machine.docker()
    machine.pid_file.write_text(process)
    machine.fake("dockerd", f"[ -e {machine.pid_file} ] || touch {machine.up}; exec sleep 3")
    result = machine.run()
    assert result.returncode == 0
    assert f"removing {machine.pid_file}" in result.stdout


def test_an_engine_that_dies_at_its_start_is_told_with_the_end_of_its_log(machine: Machine) -> None:
    machine.docker()
    machine.fake("dockerd", "echo 'failed to start daemon: the reason' >&2; exit 1")
    result = machine.run()
    assert result.returncode == 1
    assert result.stderr.endswith("failed to start daemon: the reason\n")


def test_an_engine_that_never_answers_is_given_up(machine: Machine) -> None:
    machine.docker()
    machine.fake("dockerd", "exec sleep 5")
    result = machine.run()
    assert result.returncode == 1
    assert "did not start" in result.stderr


def test_where_there_is_systemd_the_service_is_started(machine: Machine, tmp_path: Path) -> None:
    machine.docker()
    machine.fake("dockerd", "exit 1")
    (tmp_path / "run" / "systemd" / "system").mkdir(parents=True)
    machine.fake("systemctl", f"touch {machine.up}")
    assert machine.run().returncode == 0
    assert machine.called("systemctl start docker")
    assert not machine.called("dockerd")


def test_who_is_not_root_is_told_what_to_run(machine: Machine) -> None:
    machine.fake("id", 'if [ "$1" = -u ]; then echo 1000; else echo somebody; fi')
    result = machine.run()
    assert result.returncode == 1
    assert f"sudo {machine.script}" in result.stderr
    assert not machine.called("apt-get")


def test_another_system_is_told_to_install_docker_by_hand(machine: Machine) -> None:
    machine.system.write_text("ID=fedora\n")
    result = machine.run()
    assert result.returncode == 1
    assert "https://docs.docker.com/engine/install/" in result.stderr
    assert not machine.called("apt-get")


def test_a_system_that_is_not_linux_is_told_where_docker_is_to_be_had(machine: Machine) -> None:
    machine.fake("uname", "echo Darwin")
    result = machine.run()
    assert result.returncode == 1
    assert "https://docs.docker.com" in result.stderr


def test_a_docker_host_that_does_not_answer_is_not_replaced_by_a_local_engine(machine: Machine) -> None:
    machine.docker()
    result = machine.run(DOCKER_HOST="tcp://somewhere:2375")
    assert result.returncode == 1
    assert "DOCKER_HOST=tcp://somewhere:2375" in result.stderr
    assert not machine.called("dockerd")
