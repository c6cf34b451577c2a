#!/usr/bin/env bash
# Checks the tasks for other harnesses with the harnesses themselves, each in a virtual environment of its own below
# .venv-harnesses/. It needs the engine and the sample's image; answers run in containers, models are mocks.
# Usage: scripts/test-harnesses.sh [PYTHON], where PYTHON is that of the environment with this package in it.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A packages=([inspect]=inspect-ai==0.3.285 [lm_eval]=lm-eval==0.4.13)
python=$(command -v "${1:-.venv/bin/python}") || { echo "no such Python: ${1:-.venv/bin/python}" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The environment of a harness, made anew when what it is made of has changed. It sees the packages of PYTHON's own
# environment, which it stands on: most of what a harness needs is there already, and only the rest is installed.
make_environment() {
    local folder=.venv-harnesses/$1 below made_of
    below=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    made_of="${packages[$1]} on $("$python" -V) and $below, $(sha256sum pyproject.toml)"
    if [ "$(cat "$folder/made-of" 2>/dev/null)" = "$made_of" ] && "$folder/bin/python" -c '' 2>/dev/null; then return; fi
    echo "making $folder"
    "$python" -m venv --clear "$folder"
    echo "$below" >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[$1]}"
    echo "$made_of" >"$folder/made-of"
}

# Nothing of the user's own logs or settings takes part.
check() {
    env -u ML_BENCH_SOURCE -u HF_TOKEN HF_HOME="$work/home-$1" HF_HUB_OFFLINE=1 HF_EVALUATE_OFFLINE=1 \
        HF_UPDATE_DOWNLOAD_COUNTS=0 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$PWD" \
        ".venv-harnesses/$1/bin/python" -m pytest -p no:cacheprovider "tests/harnesses/test_$1.py"
}

echo "checking ${packages[*]}; making their environments takes a minute, once"
failed=0
pids=()
names=("${!packages[@]}")
for name in "${names[@]}"; do
    make_environment "$name" >"$work/make-$name.log" 2>&1 &
    pids+=($!)
done
for index in "${!pids[@]}"; do
    wait "${pids[$index]}" || { cat "$work/make-${names[$index]}.log" >&2; failed=1; }
done
[ "$failed" = 0 ] || exit 1

pids=()
for name in "${names[@]}"; do
    check "$name" >"$work/check-$name.log" 2>&1 &
    pids+=($!)
done
for index in "${!pids[@]}"; do
    if wait "${pids[$index]}"; then tail -n 1 "$work/check-${names[$index]}.log"; else
        cat "$work/check-${names[$index]}.log" >&2
        failed=1
    fi
done
exit "$failed"
