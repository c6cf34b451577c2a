"""Functions that the layers share. Every array is (batch, tokens, features) unless a docstring says otherwise."""

import numpy as np


def softmax(x):
    """Softmax over the last axis."""
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def softmax_backward(y, gradient):
    """Gradient at the input of a softmax whose output was `y`."""
    return y * (gradient - (gradient * y).sum(axis=-1, keepdims=True))


def gelu(x):
    """Gaussian error linear unit, in its tanh approximation."""
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def layer_norm(x, epsilon=1e-5):
    """Zero mean and unit variance over the last axis."""
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + epsilon)


def glorot(rng, *shape):
    """Random weights whose scale keeps the variance from layer to layer."""
    return rng.normal(0.0, np.sqrt(2.0 / (shape[-2] + shape[-1])), shape)
