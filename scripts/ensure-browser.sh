#!/usr/bin/env bash
# Sees to Chromium, in which the tests open the Space's page; as root on Debian or Ubuntu installs it, else says what to do.
set -euo pipefail

if command -v "${ML_BENCH_CHROMIUM:-chromium}" >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -eq 0 ] && grep -Eqs '^ID(_LIKE)?=.*\b(debian|ubuntu)\b' /etc/os-release; then
    echo "ensure-browser: installing chromium"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update || echo "ensure-browser: apt-get update failed; trying with the package lists that are there"
    apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 chromium >/dev/null
else
    echo "ensure-browser: the tests of the Space's page need Chromium; install it, or name one in ML_BENCH_CHROMIUM" >&2
    exit 1
fi
