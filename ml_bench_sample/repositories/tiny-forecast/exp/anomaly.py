"""Find the steps of a series that a one-step forecast misses by far."""

import numpy as np

from data_provider.loader import Scaler, read_series, windows


def scores(values, seq_len):
    """Absolute residuals of the best linear one-step forecast, in standard deviations; one per step after the first."""
    past, future = windows(values, seq_len, 1)
    flat = np.concatenate([past.reshape(len(past), -1), np.ones((len(past), 1))], axis=1)
    solution, *_ = np.linalg.lstsq(flat, future[:, 0], rcond=None)
    residuals = np.abs(future[:, 0] - flat @ solution).max(axis=1)
    return residuals / (residuals.std() + 1e-8)


def run(args):
    """Write the steps with the highest scores, a share of `anomaly_ratio` per cent; returns their number."""
    _, values = read_series(args.root_path / args.data_path, args.features, args.target)
    score = scores(Scaler(values).transform(values), args.seq_len)
    threshold = np.percentile(score, 100.0 - args.anomaly_ratio)
    steps = np.flatnonzero(score > threshold)
    args.checkpoints.mkdir(parents=True, exist_ok=True)
    out = args.checkpoints / f"anomalies_{args.data_path.stem}_{args.des}.csv"
    rows = [f"{step + args.seq_len},{score[step]:.3f}" for step in steps]
    out.write_text("\n".join(["step,score", *rows]) + "\n", encoding="utf-8")
    print(f"threshold {threshold:.3f}: {len(steps)} of {len(score)} steps written to {out}")
    return len(steps)
