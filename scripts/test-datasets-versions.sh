#!/usr/bin/env bash
# Checks every way to load the data set on several versions of `datasets`: the last one that each generation of users has,
# each in a virtual environment of its own below .venv-versions/, and the one of this project's own environment.
# Usage: scripts/test-datasets-versions.sh [PYTHON], where PYTHON is that of the environment with this package in it.
set -euo pipefail
cd "$(dirname "$0")/.."

versions=(2.21.0 3.6.0 4.8.5)
python=$(command -v "${1:-.venv/bin/python}") || { echo "no such Python: ${1:-.venv/bin/python}" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The environment of a version, made anew when what it is made of has changed.
make_environment() {
    local folder=.venv-versions/$1 packages=("datasets==$1" evaluate pydantic pyyaml)
    local made_of
    made_of="${packages[*]} on $("$python" -V)"
    if [ "$(cat "$folder/made-of" 2>/dev/null)" = "$made_of" ] && "$folder/bin/python" -c '' 2>/dev/null; then return; fi
    echo "making $folder"
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    echo "$made_of" >"$folder/made-of"
}

# Nothing of the user's own caches or settings takes part.
check() {
    env -u ML_BENCH_SOURCE -u HF_DATASETS_CACHE -u HF_MODULES_CACHE -u HF_TOKEN HF_HOME="$work/home-$1" HF_HUB_OFFLINE=1 \
        HF_EVALUATE_OFFLINE=1 HF_UPDATE_DOWNLOAD_COUNTS=0 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$PWD" "${@:2}"
}

echo "checking datasets ${versions[*]} and that of $python; making an environment takes a minute, once"
pids=()
for version in "${versions[@]}"; do
    make_environment "$version" >"$work/make-$version.log" 2>&1 &
    pids+=($!)
done
check prepare "$python" tests/versions/prepare.py "$work" >"$work/prepare.log" 2>&1 || { cat "$work/prepare.log" >&2; exit 1; }
failed=0
for index in "${!pids[@]}"; do
    wait "${pids[$index]}" || { cat "$work/make-${versions[$index]}.log" >&2; failed=1; }
done
[ "$failed" = 0 ] || exit 1

pids=()
names=(newest "${versions[@]}")
for name in "${names[@]}"; do
    interpreter=.venv-versions/$name/bin/python
    [ "$name" = newest ] && interpreter=$python
    check "$name" "$interpreter" tests/versions/check.py "$work/source" "$work/built/ml-bench" "$work/registered" \
        >"$work/check-$name.log" 2>&1 &
    pids+=($!)
done
for index in "${!pids[@]}"; do
    if wait "${pids[$index]}"; then tail -n 1 "$work/check-${names[$index]}.log"; else
        cat "$work/check-${names[$index]}.log" >&2
        failed=1
    fi
done
exit "$failed"
