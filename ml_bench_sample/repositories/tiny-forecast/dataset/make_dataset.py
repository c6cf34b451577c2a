"""Write one of the two synthetic series as CSV: `bakery` (loaves sold a day) or `harbour` (an hourly tide gauge)."""

import argparse
import datetime
from pathlib import Path

import numpy as np


def bakery(rows, rng):
    """A weekly pattern that grows slowly; weekends sell best."""
    day = np.arange(rows)
    week = np.array([0.0, -6.0, -4.0, 2.0, 10.0, 28.0, 16.0])[day % 7]
    loaves = 120.0 + 0.06 * day + week + rng.normal(0.0, 4.0, rows)
    rolls = 3.1 * loaves - 40.0 + rng.normal(0.0, 9.0, rows)
    return {"rolls": rolls, "loaves": loaves}, datetime.timedelta(days=1)


def harbour(rows, rng):
    """Two tides that beat against each other, and the wind's push."""
    hour = np.arange(rows)
    wind = np.convolve(rng.normal(0.0, 1.0, rows + 11), np.ones(12) / 12.0, mode="valid")
    level = 180.0 * np.sin(2 * np.pi * hour / 12.42) + 60.0 * np.sin(2 * np.pi * hour / 12.0) + 35.0 * wind
    return {"wind": 10.0 * wind, "level": level + rng.normal(0.0, 5.0, rows)}, datetime.timedelta(hours=1)


SERIES = {"bakery": bakery, "harbour": harbour}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", choices=sorted(SERIES), required=True)
    parser.add_argument("--rows", type=int, default=420)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, help="default: <series>.csv")
    args = parser.parse_args()

    columns, step = SERIES[args.series](args.rows, np.random.default_rng(args.seed))
    out = args.out or Path(f"{args.series}.csv")
    out.parent.mkdir(parents=True, exist_ok=True)
    date = datetime.datetime(2022, 1, 3)
    with out.open("w", encoding="utf-8") as file:
        file.write(",".join(["date", *columns]) + "\n")
        for row in zip(*columns.values()):
            file.write(",".join([date.isoformat(" "), *(f"{value:.2f}" for value in row)]) + "\n")
            date += step
    print(f"{args.rows} rows written to {out}")


if __name__ == "__main__":
    main()
