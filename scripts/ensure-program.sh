#!/usr/bin/env bash
# Sees to a program that tests use; as root on Debian or Ubuntu installs it, else says what to do.
# Usage: ensure-program.sh PROGRAM WHAT-NEEDS-IT PACKAGE...
set -euo pipefail

program=$1 need=$2
shift 2

if command -v "$program" >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -eq 0 ] && grep -Eqs '^ID(_LIKE)?=.*\b(debian|ubuntu)\b' /etc/os-release; then
    echo "ensure-program: installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update || echo "ensure-program: apt-get update failed; trying with the package lists that are there"
    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null
else
    echo "ensure-program: $need $program; install it" >&2
    exit 1
fi
