"""Series from CSV files, scaled and cut into windows."""

import csv
from pathlib import Path

import numpy as np


def read_series(path, features="S", target=None):
    """Read a CSV file whose first column is the date.

    `features` is `S` (the target column alone) or `M` (all columns); `target` names the target, by default the last
    column. Returns (names, values of shape (rows, columns)).
    """
    with Path(path).open(encoding="utf-8", newline="") as file:
        header, *rows = list(csv.reader(file))
    names = header[1:]
    values = np.array([[float(cell) for cell in row[1:]] for row in rows])
    if features == "M":
        return names, values
    if target is None:
        target = names[-1]
    if target not in names:
        raise SystemExit(f"{path} has no column {target!r}; there are: {', '.join(names)}")
    return [target], values[:, [names.index(target)]]


class Scaler:
    """Zero mean and unit variance, learned from the training part."""

    def __init__(self, values):
        self.mean = values.mean(axis=0)
        self.deviation = values.std(axis=0) + 1e-8

    def transform(self, values):
        return (values - self.mean) / self.deviation

    def inverse(self, values):
        return values * self.deviation + self.mean


def split(values, train=0.7, validation=0.1):
    """Cut a series in time: training, validation and test part."""
    first, second = int(train * len(values)), int((train + validation) * len(values))
    return values[:first], values[first:second], values[second:]


def windows(values, seq_len, pred_len, stride=1):
    """All windows of a series -> (past of shape (n, seq_len, columns), future of shape (n, pred_len, columns))."""
    starts = np.arange(0, len(values) - seq_len - pred_len + 1, stride)
    if len(starts) == 0:
        raise SystemExit(f"a part of {len(values)} rows is too short for seq_len={seq_len} and pred_len={pred_len}")
    past = values[starts[:, None] + np.arange(seq_len)]
    future = values[starts[:, None] + seq_len + np.arange(pred_len)]
    return past, future
