#!/usr/bin/env bash
# The tide, half a day ahead; further options are passed on to run.py.
# DATA_ROOT names the folder of the data.
set -eu
cd "$(dirname "$0")/../.."

python run.py --task_name forecast --model Decomposed --root_path "${DATA_ROOT:?set DATA_ROOT}" \
  --data_path harbour.csv --season 12 --seq_len 48 --pred_len 12 --des harbour "$@"
