"""Errors of a forecast; smaller is better."""

import numpy as np


def mse(forecast, truth):
    return float(np.mean((forecast - truth) ** 2))


def mae(forecast, truth):
    return float(np.mean(np.abs(forecast - truth)))


def mase(forecast, truth, training, season):
    """Mean absolute error, relative to the seasonal naive error on the training part."""
    scale = np.mean(np.abs(training[season:] - training[:-season]))
    return mae(forecast, truth) / float(scale)
