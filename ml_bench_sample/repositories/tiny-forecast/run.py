"""Forecast a series, or look for anomalies in it."""

import argparse
from pathlib import Path

from exp import anomaly, forecasting
from models import MODELS


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task_name", choices=["forecast", "anomaly"], required=True)
    parser.add_argument("--model", choices=sorted(MODELS), default="Linear")
    parser.add_argument("--root_path", type=Path, default=Path("dataset"), help="folder of the data")
    parser.add_argument("--data_path", type=Path, required=True, help="CSV file in that folder")
    parser.add_argument("--features", choices=["S", "M"], default="S", help="S: the target alone, M: all columns")
    parser.add_argument("--target", help="name of the target column; default: the last")
    parser.add_argument("--seq_len", type=int, default=28, help="length of the past")
    parser.add_argument("--pred_len", type=int, default=7, help="length of the forecast")
    parser.add_argument("--season", type=int, default=7, help="length of a season")
    parser.add_argument("--moving_avg", type=int, default=7, help="width of the trend's moving average")
    parser.add_argument("--train_epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--learning_rate", type=float, default=0.01)
    parser.add_argument("--patience", type=int, default=3, help="epochs without progress before training stops")
    parser.add_argument("--anomaly_ratio", type=float, default=2.0, help="share of anomalies, in per cent")
    parser.add_argument("--itr", type=int, default=1, help="number of runs with different seeds")
    parser.add_argument("--seed", type=int, default=2022)
    parser.add_argument("--des", default="test", help="a word for the names of the results")
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"), help="folder of the results")
    return parser.parse_args()


def main():
    args = parse()
    if args.task_name == "anomaly":
        anomaly.run(args)
    else:
        print(f"mean test mse: {forecasting.run(args):.4f}")


if __name__ == "__main__":
    main()
