#!/usr/bin/env bash
# Daily sales, two weeks ahead, with a model of your choice; further options are passed on to run.py.
# usage: bakery.sh MODEL [OPTION…]
set -eu
model=${1:?usage: bakery.sh MODEL [OPTION…]}
shift
cd "$(dirname "$0")/../.."

python run.py --task_name forecast --model "$model" --data_path bakery.csv \
  --seq_len 28 --pred_len 14 --des bakery "$@"
