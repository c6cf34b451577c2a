"""A feed-forward layer with a multiplicative gate."""

import numpy as np

from model.functional import gelu, glorot


class GatedMLP:
    """(gelu(x A) * x B) C.

    Args:
        d_model: features of the input and of the output.
        expansion: how much wider the hidden layer is.
    """

    def __init__(self, d_model, expansion=4, seed=0):
        rng = np.random.default_rng(seed)
        hidden = expansion * d_model
        self.gate, self.up = glorot(rng, d_model, hidden), glorot(rng, d_model, hidden)
        self.down = glorot(rng, hidden, d_model)

    def __call__(self, x):
        """(…, d_model) -> (…, d_model)."""
        return gelu(x @ self.gate) * (x @ self.up) @ self.down

    @property
    def size(self):
        """Number of weights."""
        return int(np.sum([w.size for w in (self.gate, self.up, self.down)]))
