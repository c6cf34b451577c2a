"""Scaled dot-product attention with several heads, forward and backward."""

import numpy as np

from model.functional import glorot, softmax, softmax_backward


class DotAttention:
    """softmax(Q K^T / sqrt(d_k)) V for each head, then a linear map back to d_model.

    Args:
        d_model: features of the input and of the output.
        d_k: features of queries and keys, per head.
        d_v: features of values, per head.
        h: number of heads.
    """

    def __init__(self, d_model, d_k, d_v, h, seed=0):
        rng = np.random.default_rng(seed)
        self.d_k = d_k
        self.weights = {
            "query": glorot(rng, h, d_model, d_k),
            "key": glorot(rng, h, d_model, d_k),
            "value": glorot(rng, h, d_model, d_v),
            "out": glorot(rng, h, d_v, d_model),
        }

    def __call__(self, queries, keys, values, mask=None):
        """(batch, n, d_model), (batch, m, d_model) twice -> (batch, n, d_model).

        `mask` is a boolean array (n, m); True hides a key from a query.
        """
        w = self.weights
        q, k, v = (x[:, None] @ w[name] for x, name in ((queries, "query"), (keys, "key"), (values, "value")))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(self.d_k)
        if mask is not None:
            scores = np.where(mask, -1e9, scores)
        self.map = softmax(scores)
        self._cache = (queries, keys, values, q, k, v)
        return (self.map @ v @ w["out"]).sum(axis=1)

    def backward(self, gradient):
        """Gradient at the output of the last call -> gradients of the weights, by name."""
        queries, keys, values, q, k, v = self._cache
        gradient = gradient[:, None]
        heads = self.map @ v
        at_heads = gradient @ self.weights["out"].swapaxes(-1, -2)
        at_scores = softmax_backward(self.map, at_heads @ v.swapaxes(-1, -2)) / np.sqrt(self.d_k)
        at_value = self.map.swapaxes(-1, -2) @ at_heads
        return {
            "query": _sum(queries[:, None], at_scores @ k),
            "key": _sum(keys[:, None], at_scores.swapaxes(-1, -2) @ q),
            "value": _sum(values[:, None], at_value),
            "out": _sum(heads, gradient),
        }


def _sum(x, gradient):
    return (x.swapaxes(-1, -2) @ gradient).sum(axis=0)
