#!/usr/bin/env bash
# Sees to a Docker engine: uses the one that answers; as root on Debian or Ubuntu installs and starts one; else says
# what to do. Also installs debootstrap there, which makes the base image where no registry answers.
set -euo pipefail

log=/var/log/ml-bench-dockerd.log
start_seconds=60
engine= # process number of the dockerd that this script started

say() { echo "ensure-engine: $*"; }

die() {
    say "$@" >&2
    exit 1
}

answers() { timeout 20 docker info --format '{{.ServerVersion}}' >/dev/null 2>&1; }

is_debian() { grep -Eqs '^ID(_LIKE)?=.*\b(debian|ubuntu)\b' /etc/os-release; }

can_install() { [ "$(id -u)" -eq 0 ] && is_debian; }

install_packages() {
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update || say "apt-get update failed; trying with the package lists that are there"
    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

see_to_debootstrap() {
    if can_install && ! command -v debootstrap >/dev/null && [ -z "$(docker image ls -q ml-bench/base)" ]; then
        # The keyring is Debian's; Ubuntu does not have it by itself.
        install_packages debootstrap debian-archive-keyring ||
            say "debootstrap could not be installed; the base image needs a registry, or a tar file, then"
    fi
}

install_engine() {
    local packages=()
    command -v dockerd >/dev/null || packages+=(docker.io)
    command -v iptables >/dev/null || packages+=(iptables)
    if [ "${#packages[@]}" -gt 0 ]; then
        install_packages "${packages[@]}"
    fi
    # Debian 13 has the command in a package of its own.
    command -v docker >/dev/null || install_packages docker-cli
}

# dockerd refuses to start when the process number in its file is in use, by whatever program.
remove_stale_pid_file() {
    local file=$1 program=$2 pid
    [ -e "$file" ] || return 0
    pid=$(cat "$file")
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$program" ]; then
        say "removing $file: process ${pid:-(none)} is no $program"
        rm -f "$file"
    fi
}

start_engine() {
    if [ -d /run/systemd/system ]; then
        say "starting the service docker"
        systemctl start docker || die "systemctl start docker failed; see journalctl -u docker"
        return
    fi
    remove_stale_pid_file /var/run/docker.pid dockerd
    remove_stale_pid_file /var/run/docker/containerd/containerd.pid containerd
    say "starting dockerd, log in $log"
    setsid nohup dockerd >"$log" 2>&1 </dev/null &
    engine=$!
}

wait_for_engine() {
    local end=$((SECONDS + start_seconds))
    until answers; do
        if [ "$SECONDS" -ge "$end" ] || { [ -n "$engine" ] && ! kill -0 "$engine" 2>/dev/null; }; then
            say "the engine did not start" >&2
            if [ -e "$log" ]; then
                say "$log ends with:" >&2
                tail -n 20 "$log" >&2
            fi
            exit 1
        fi
        sleep 0.5
    done
}

if command -v docker >/dev/null && answers; then
    say "a Docker engine answers ($(docker info --format 'version {{.ServerVersion}}, {{.Driver}}'))"
    see_to_debootstrap
    exit 0
fi

if [ -n "${DOCKER_HOST:-}" ]; then
    die "no Docker engine answers at DOCKER_HOST=$DOCKER_HOST; start that one, or unset DOCKER_HOST to use a local one"
fi
if [ "$(uname -s)" != Linux ]; then
    die "no Docker engine answers; install and start Docker: https://docs.docker.com/get-started/get-docker/"
fi
if [ "$(id -u)" -ne 0 ]; then
    if [ -S /var/run/docker.sock ] && [ ! -w /var/run/docker.sock ]; then
        die "there is a Docker engine that this user may not use: run 'sudo usermod -aG docker $(id -un)', log in again"
    fi
    die "no Docker engine answers, and only root can start one: run 'sudo $0' (installs docker.io on Debian and Ubuntu)," \
        "or install Docker yourself: https://docs.docker.com/engine/install/"
fi
if ! is_debian && ! command -v dockerd >/dev/null; then
    die "no Docker engine answers, and on this system it has to be installed by hand:" \
        "https://docs.docker.com/engine/install/; then run this again"
fi

if can_install; then
    install_engine
fi
# The package starts the service by itself where there is systemd.
answers || start_engine
wait_for_engine
say "the Docker engine runs ($(docker info --format 'version {{.ServerVersion}}, {{.Driver}}'))"
see_to_debootstrap
