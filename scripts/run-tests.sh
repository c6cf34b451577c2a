#!/usr/bin/env bash
# Runs all tests: in two parts those that need containers, which wait for the engine most of the time, and beside them
# those that do not. Usage: run-tests.sh PYTEST PYTHON
set -uo pipefail
# Job control: without it bash lets what runs in the background ignore Ctrl-C, and some tests are about that.
set -m

pytest=$1 python=$2
logs=$(mktemp -d)
# The first part: what sandboxes and engines do, and what is done to them.
sandboxes=(tests/hostile tests/hostile_agents tests/test_docker_sandbox.py tests/test_engine_faults.py tests/test_podman.py)
started=()

# shellcheck disable=SC2317 # called by the trap
end() {
    local one
    for one in "${started[@]}"; do kill -- "-$one" 2>/dev/null; done
    rm -rf "$logs"
}
trap end EXIT

without_containers() {
    "$pytest" -m 'not docker' -p no:cacheprovider
    local plain=$?
    bash scripts/test-datasets-versions.sh "$python" && [ "$plain" -eq 0 ]
}

without_containers >"$logs/without" 2>&1 &
started+=($!)
"$pytest" -m docker -p no:cacheprovider --durations=15 "${sandboxes[@]}" >"$logs/sandboxes" 2>&1 &
started+=($!)
echo "run-tests: tests with containers, but for those of sandboxes and engines"
"$pytest" -m docker -p no:cacheprovider --durations=15 "${sandboxes[@]/#/--ignore=}"
failed=$?
for name in without sandboxes; do
    wait "${started[0]}" || failed=1
    started=("${started[@]:1}")
    echo "run-tests: $name"
    cat "$logs/$name"
done
exit "$failed"
