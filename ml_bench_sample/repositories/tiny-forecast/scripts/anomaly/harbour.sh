#!/usr/bin/env bash
# Storm surges in the tide gauge; further options are passed on to run.py.
set -eu
cd "$(dirname "$0")/../.."

python run.py --task_name anomaly --data_path harbour.csv --seq_len 24 --des surges "$@"
