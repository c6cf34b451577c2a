"""A multi-layer perceptron with its backward pass."""

import numpy as np


class MLP:
    """Dense layers with leaky ReLU between them and a linear output."""

    slope = 0.2

    def __init__(self, sizes, rng):
        self.sizes = tuple(sizes)
        self.weights = [
            rng.normal(0.0, np.sqrt(2.0 / fan_in), (fan_in, fan_out))
            for fan_in, fan_out in zip(self.sizes[:-1], self.sizes[1:])
        ]
        self.biases = [np.zeros(fan_out) for fan_out in self.sizes[1:]]
        self._inputs = []
        self._masks = []

    @property
    def parameters(self):
        return [*self.weights, *self.biases]

    def forward(self, x):
        """(batch, sizes[0]) -> (batch, sizes[-1]); remembers what `backward` needs."""
        self._inputs, self._masks = [], []
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            self._inputs.append(x)
            x = x @ weight + bias
            if index < last:
                mask = np.where(x > 0, 1.0, self.slope)
                self._masks.append(mask)
                x = x * mask
        return x

    def backward(self, gradient):
        """Gradient at the output of the last `forward` -> (gradients of the parameters, gradient at the input)."""
        weight_gradients, bias_gradients = [], []
        for index in reversed(range(len(self.weights))):
            if index < len(self._masks):
                gradient = gradient * self._masks[index]
            weight_gradients.insert(0, self._inputs[index].T @ gradient)
            bias_gradients.insert(0, gradient.sum(axis=0))
            gradient = gradient @ self.weights[index].T
        return [*weight_gradients, *bias_gradients], gradient

    def clip(self, bound):
        """Clip every weight and bias to [-bound, bound], in place."""
        for parameter in self.parameters:
            np.clip(parameter, -bound, bound, out=parameter)
