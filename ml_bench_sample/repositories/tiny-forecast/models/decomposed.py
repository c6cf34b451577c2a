"""Trend and remainder, each forecast by a linear map of its own."""

import numpy as np

from models.linear import Linear


def moving_average(past, kernel_size):
    """Trend of every window: the mean over `kernel_size` steps, the ends repeated."""
    before = (kernel_size - 1) // 2
    padded = np.pad(past, ((0, 0), (before, kernel_size - 1 - before), (0, 0)), mode="edge")
    sums = np.cumsum(np.pad(padded, ((0, 0), (1, 0), (0, 0))), axis=1)
    return (sums[:, kernel_size:] - sums[:, :-kernel_size]) / kernel_size


class Decomposed:
    """future = linear(trend) + linear(past - trend)."""

    trainable = True

    def __init__(self, seq_len, pred_len, moving_avg=7, seed=0):
        self.moving_avg = moving_avg
        self.trend = Linear(seq_len, pred_len, seed=seed)
        self.remainder = Linear(seq_len, pred_len, seed=seed + 1)

    def predict(self, past):
        trend = moving_average(past, self.moving_avg)
        return self.trend.predict(trend) + self.remainder.predict(past - trend)

    def train_batch(self, past, future, learning_rate):
        """One step on the mean squared error; both maps see what the other leaves over."""
        trend = moving_average(past, self.moving_avg)
        from_trend, from_remainder = self.trend.predict(trend), self.remainder.predict(past - trend)
        self.remainder.train_batch(past - trend, future - from_trend, learning_rate)
        return self.trend.train_batch(trend, future - from_remainder, learning_rate)

    def state(self):
        maps = {"trend": self.trend, "remainder": self.remainder}
        return {f"{part}_{name}": array for part, linear in maps.items() for name, array in linear.state().items()}
