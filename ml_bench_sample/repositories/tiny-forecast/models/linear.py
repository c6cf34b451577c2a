"""One linear map from the past to the future, shared by all columns."""

import numpy as np


class Linear:
    """future = past @ weight + bias, trained by gradient descent with momentum."""

    trainable = True

    def __init__(self, seq_len, pred_len, momentum=0.9, seed=0):
        rng = np.random.default_rng(seed)
        self.weight = rng.normal(0.0, 0.01, (seq_len, pred_len))
        self.bias = np.zeros(pred_len)
        self.momentum = momentum
        self._speed = [np.zeros_like(self.weight), np.zeros_like(self.bias)]

    def predict(self, past):
        return (past.swapaxes(1, 2) @ self.weight + self.bias).swapaxes(1, 2)

    def train_batch(self, past, future, learning_rate):
        """One step on the mean squared error; returns the error before the step."""
        flat = past.swapaxes(1, 2).reshape(-1, past.shape[1])
        error = flat @ self.weight + self.bias - future.swapaxes(1, 2).reshape(-1, future.shape[1])
        gradients = [2.0 * flat.T @ error / len(flat), 2.0 * error.mean(axis=0)]
        for parameter, gradient, speed in zip([self.weight, self.bias], gradients, self._speed):
            speed *= self.momentum
            speed -= learning_rate * gradient
            parameter += speed
        return float((error**2).mean())

    def state(self):
        return {"weight": self.weight, "bias": self.bias}
