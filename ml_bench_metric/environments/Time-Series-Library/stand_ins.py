"""Generates data sets for Time-Series-Library: the real names, columns and layouts, random values, cut-down lengths.

A length that is not explained is as short as a few batches need.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path("dataset")

ETT_COLUMNS = ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
WEATHER_COLUMNS = [
    *("p (mbar)", "T (degC)", "Tpot (K)", "Tdew (degC)", "rh (%)", "VPmax (mbar)", "VPact (mbar)", "VPdef (mbar)"),
    *("sh (g/kg)", "H2OC (mmol/mol)", "rho (g/m**3)", "wv (m/s)", "max. wv (m/s)", "wd (deg)", "rain (mm)"),
    *("raining (s)", "SWDR (W/m2)", "PAR (umol/m2/s)", "max. PAR (umol/m2/s)", "Tlog (degC)", "OT"),
]
ILLNESS_COLUMNS = [
    *("% WEIGHTED ILI", "%UNWEIGHTED ILI", "AGE 0-4", "AGE 5-24", "ILITOTAL", "NUM. OF PROVIDERS", "OT"),
]
FORECASTS = {
    # The loader of ETT cuts at fixed places: 12 months of 30 days to train, 4 to validate, 4 to test.
    "ETT-small/ETTh1.csv": (20 * 30 * 24, "h", ETT_COLUMNS),
    "ETT-small/ETTh2.csv": (20 * 30 * 24, "h", ETT_COLUMNS),
    "ETT-small/ETTm1.csv": (20 * 30 * 96, "15min", ETT_COLUMNS),
    "ETT-small/ETTm2.csv": (20 * 30 * 96, "15min", ETT_COLUMNS),
    # The others validate on a tenth, which has to hold the longest forecast, 720 steps, and a batch.
    "weather/weather.csv": (8000, "10min", WEATHER_COLUMNS),
    "electricity/electricity.csv": (8000, "h", [*map(str, range(320)), "OT"]),
    "traffic/traffic.csv": (8000, "h", [*map(str, range(861)), "OT"]),
    "exchange_rate/exchange_rate.csv": (8000, "D", [*map(str, range(7)), "OT"]),
    "illness/national_illness.csv": (966, "7D", ILLNESS_COLUMNS),
}
"""File -> rows, time between them, columns behind `date`."""

ANOMALIES = {"MSL": 55, "SMAP": 25, "SMD": 38}
"""Data set of three NumPy files -> channels."""

CLASSIFICATIONS = {
    "EthanolConcentration": (3, 1751, 4),
    "FaceDetection": (144, 62, 2),
    "Handwriting": (3, 152, 26),
    "Heartbeat": (61, 405, 2),
    "JapaneseVowels": (12, 29, 9),
    "PEMS-SF": (963, 144, 7),
    "SelfRegulationSCP1": (6, 896, 2),
    "SelfRegulationSCP2": (7, 1152, 2),
    "SpokenArabicDigits": (13, 93, 10),
    "UWaveGestureLibrary": (3, 315, 8),
}
"""Data set of the UEA archive -> channels, steps, classes."""
SAMPLES = 16
"""In each part of such a data set, if it has no more classes."""

M4 = {
    "Yearly": (1, 6),
    "Quarterly": (4, 8),
    "Monthly": (12, 18),
    "Weekly": (1, 13),
    "Daily": (1, 14),
    "Hourly": (24, 48),
}
"""Seasonal pattern -> frequency, horizon."""
M4_SERIES = 32
"""Of each pattern: two batches."""


def random(name: str) -> np.random.Generator:
    """Return the random numbers of a file; its name is the seed, so that no file depends on the others."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def series(name: str, steps: int, channels: int, period: float = 24.0) -> np.ndarray:
    """Return noisy waves of shape (steps, channels), rounded to a tenth."""
    rng = random(name)
    waves = np.sin(2 * np.pi * np.arange(steps)[:, None] / period + rng.uniform(0, 2 * np.pi, channels))
    values: np.ndarray = waves * rng.uniform(0.5, 3, channels) + rng.normal(0, 0.3, (steps, channels))
    return (values + rng.uniform(-2, 6, channels)).round(1)


def forecast(name: str, rows: int, step: str, columns: list[str]) -> None:
    """Write a table with a column of dates."""
    table = pd.DataFrame(series(name, rows, len(columns)), columns=columns)
    dates = pd.date_range("2002-01-01", periods=rows, freq=step)
    table.insert(0, "date", dates.strftime("%Y-%m-%d %H:%M:%S"))
    path = DATA / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)


def labels(name: str, steps: int) -> np.ndarray:
    """Return which steps are anomalies: one in twenty."""
    return random(name + " labels").random(steps) < 0.05


def anomalies() -> None:
    """Write the five data sets for the detection of anomalies."""
    for name, channels in ANOMALIES.items():
        folder = DATA / name
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{name}_train.npy", series(f"{name} train", 3000, channels))
        np.save(folder / f"{name}_test.npy", series(f"{name} test", 2000, channels))
        np.save(folder / f"{name}_test_label.npy", labels(name, 2000))

    folder = DATA / "PSM"
    folder.mkdir(parents=True, exist_ok=True)
    for part, steps in (("train", 3000), ("test", 2000)):
        values = series(f"PSM {part}", steps, 25)
        table = pd.DataFrame(values, columns=[f"feature_{channel}" for channel in range(25)])
        table.insert(0, "timestamp_(min)", range(steps))
        table.to_csv(folder / f"{part}.csv", index=False)
    table = pd.DataFrame({"timestamp_(min)": range(2000), "label": labels("PSM", 2000).astype(int)})
    table.to_csv(folder / "test_label.csv", index=False)

    folder = DATA / "SWaT"
    folder.mkdir(parents=True, exist_ok=True)
    for file, steps in (("swat_train2.csv", 3000), ("swat2.csv", 2000)):
        table = pd.DataFrame(series(f"SWaT {file}", steps, 51), columns=[f"sensor{channel}" for channel in range(51)])
        table["Normal/Attack"] = labels(f"SWaT {file}", steps).astype(int)
        table.to_csv(folder / file, index=False)


def classification(name: str, channels: int, steps: int, classes: int) -> None:
    """Write the two parts of a data set in the archive's text form: one sample per line, channels between colons."""
    folder = DATA / name
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("TRAIN", "TEST"):
        lines = [
            f"@problemName {name}",
            "@timeStamps false",
            "@missing false",
            "@univariate false",
            f"@dimensions {channels}",
            "@equalLength true",
            f"@seriesLength {steps}",
            f"@classLabel true {' '.join(map(str, range(1, classes + 1)))}",
            "@data",
        ]
        for sample in range(max(SAMPLES, classes)):
            values = series(f"{name} {part} {sample}", steps, channels)
            channel_texts = (",".join(map(str, channel)) for channel in values.T.tolist())
            lines.append(":".join(channel_texts) + f":{sample % classes + 1}")
        (folder / f"{name}_{part}.ts").write_text("\n".join(lines) + "\n", encoding="utf-8")


def m4() -> None:
    """Write the competition's files: a table of the series, their values, and the naive forecast."""
    facts: list[tuple[str, int, int, str]] = []
    past: list[np.ndarray] = []
    future: list[np.ndarray] = []
    for pattern, (frequency, horizon) in M4.items():
        for index in range(1, M4_SERIES + 1):
            name = f"{pattern[0]}{index}"
            # Longer than the past that any model looks at, which is at most 10 horizons (or 1.5 of the slow patterns).
            length = 10 * horizon + index
            values = series(name, length + horizon, 1, period=max(frequency, 12))[:, 0] * 100 + 1500
            facts.append((name, frequency, horizon, pattern))
            past.append(values[:length])
            future.append(values[length:])

    folder = DATA / "m4"
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(facts, columns=["M4id", "Frequency", "Horizon", "SP"])
    table.insert(1, "category", "Macro")
    table["StartingDate"] = "01-01-79 12:00"
    table.to_csv(folder / "M4-info.csv", index=False)
    for file, parts in (("training.npz", past), ("test.npz", future)):
        ragged = np.empty(len(parts), dtype=object)
        ragged[:] = parts
        with (folder / file).open("wb") as stream:
            # One array, as in the published files, whatever their names say.
            np.save(stream, ragged)
    naive = np.full((len(facts), max(horizon for _, horizon in M4.values())), np.nan)
    for row, (known, wanted) in enumerate(zip(past, future)):
        naive[row, : len(wanted)] = known[-1]
    table = pd.DataFrame(naive, columns=[f"F{step}" for step in range(1, naive.shape[1] + 1)])
    table.insert(0, "id", [name for name, *_ in facts])
    table.to_csv(folder / "submission-Naive2.csv", index=False)


if __name__ == "__main__":
    for file, (rows, step, columns) in FORECASTS.items():
        forecast(file, rows, step, columns)
    anomalies()
    for name, (channels, steps, classes) in CLASSIFICATIONS.items():
        classification(name, channels, steps, classes)
    m4()
