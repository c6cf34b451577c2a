"""Train a forecaster on the first part of a series, measure it on the last."""

import numpy as np

from data_provider.loader import Scaler, read_series, split, windows
from models import MODELS
from utils.metrics import mae, mase, mse


def build(args, seed):
    if args.model == "SeasonalNaive":
        return MODELS[args.model](args.seq_len, args.pred_len, season=args.season)
    if args.model == "Decomposed":
        return MODELS[args.model](args.seq_len, args.pred_len, moving_avg=args.moving_avg, seed=seed)
    return MODELS[args.model](args.seq_len, args.pred_len, seed=seed)


def fit(model, training, validation, args, rng):
    """Train until the epochs are over or the validation error has not fallen for `patience` epochs."""
    past, future = windows(training, args.seq_len, args.pred_len)
    best, waited = np.inf, 0
    for epoch in range(1, args.train_epochs + 1):
        order = rng.permutation(len(past))
        losses = [
            model.train_batch(past[batch], future[batch], args.learning_rate)
            for batch in np.split(order, range(args.batch_size, len(order), args.batch_size))
        ]
        error = mse(model.predict(validation[0]), validation[1])
        print(f"epoch {epoch}: train {np.mean(losses):.4f}, validation {error:.4f}")
        best, waited = (error, 0) if error < best else (best, waited + 1)
        if waited >= args.patience:
            print("early stop")
            break


def run(args):
    """The experiment, `args.itr` times; writes metrics and weights, returns the mean test error."""
    _, values = read_series(args.root_path / args.data_path, args.features, args.target)
    training, validation, test = split(values)
    scaler = Scaler(training)
    # Windows of the later parts may look back into the part before.
    validation = np.concatenate([training[-args.seq_len :], validation])
    test = np.concatenate([validation[-args.seq_len :], test])
    pairs = windows(scaler.transform(validation), args.seq_len, args.pred_len)
    past, future = windows(scaler.transform(test), args.seq_len, args.pred_len)

    errors = []
    for iteration in range(args.itr):
        seed = args.seed + iteration
        model = build(args, seed)
        if model.trainable:
            fit(model, scaler.transform(training), pairs, args, np.random.default_rng(seed))
        forecast = model.predict(past)
        errors.append(mse(forecast, future))
        relative = mase(scaler.inverse(forecast), scaler.inverse(future), training, args.season)
        print(f"run {iteration}: mse {errors[-1]:.4f}, mae {mae(forecast, future):.4f}, mase {relative:.4f}")
        setting = [args.model, args.data_path.stem, args.seq_len, args.pred_len, args.des, iteration]
        folder = args.checkpoints / "_".join(map(str, setting))
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(folder / "checkpoint.npz", **model.state())
        np.savetxt(folder / "forecast.csv", scaler.inverse(forecast)[-1], delimiter=",", fmt="%.3f")
    return float(np.mean(errors))
