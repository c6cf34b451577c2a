"""Adam."""

import numpy as np


class Adam:
    """Adam over a list of arrays, which are updated in place."""

    def __init__(self, parameters, lr=1e-3, betas=(0.5, 0.999), epsilon=1e-8):
        self.parameters = list(parameters)
        self.lr, self.betas, self.epsilon = lr, betas, epsilon
        self.first = [np.zeros_like(p) for p in self.parameters]
        self.second = [np.zeros_like(p) for p in self.parameters]
        self.steps = 0

    def step(self, gradients):
        self.steps += 1
        beta1, beta2 = self.betas
        scale = self.lr * np.sqrt(1.0 - beta2**self.steps) / (1.0 - beta1**self.steps)
        for parameter, gradient, m, v in zip(self.parameters, gradients, self.first, self.second):
            m += (1.0 - beta1) * (gradient - m)
            v += (1.0 - beta2) * (gradient**2 - v)
            parameter -= scale * m / (np.sqrt(v) + self.epsilon)
