#!/usr/bin/env bash
# Runs the tests that need containers beside those that do not: the first wait for the engine most of the time.
# Usage: run-tests.sh PYTEST
set -uo pipefail
# Job control: without it bash lets what runs in the background ignore Ctrl-C, and some tests are about that.
set -m

pytest=$1
log=$(mktemp)
trap 'rm -f "$log"; kill -- "-$plain" 2>/dev/null' EXIT

"$pytest" -m 'not docker' -p no:cacheprovider >"$log" 2>&1 &
plain=$!
echo "run-tests: tests with containers"
"$pytest" -m docker -p no:cacheprovider
with_containers=$?
wait "$plain"
without=$?
echo "run-tests: tests without containers"
cat "$log"
[ "$with_containers" -eq 0 ] && [ "$without" -eq 0 ]
