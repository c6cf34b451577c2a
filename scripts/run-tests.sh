#!/usr/bin/env bash
# Runs the tests that need containers beside those that do not: the first wait for the engine most of the time.
# Usage: run-tests.sh PYTEST PYTHON
set -uo pipefail
# Job control: without it bash lets what runs in the background ignore Ctrl-C, and some tests are about that.
set -m

pytest=$1 python=$2
log=$(mktemp)
trap 'rm -f "$log"; kill -- "-$others" 2>/dev/null' EXIT
# `make test-long` runs these: each is minutes of attempts that a second sandbox, or a second judge, stands firm.
long=(tests/hostile_agents tests/test_podman.py)

without_containers() {
    "$pytest" -m 'not docker' -p no:cacheprovider
    local plain=$?
    bash scripts/test-datasets-versions.sh "$python" && [ "$plain" -eq 0 ]
}

without_containers >"$log" 2>&1 &
others=$!
echo "run-tests: tests with containers, without those of make test-long: ${long[*]}"
"$pytest" -m docker -p no:cacheprovider --durations=15 "${long[@]/#/--ignore=}"
with_containers=$?
wait "$others"
without=$?
echo "run-tests: tests without containers, and those on other versions of datasets"
cat "$log"
[ "$with_containers" -eq 0 ] && [ "$without" -eq 0 ]
