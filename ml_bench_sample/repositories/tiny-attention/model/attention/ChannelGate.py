"""Attention over the channels of a picture."""

import numpy as np

from model.functional import glorot


class ChannelGate:
    """Weigh every channel by a small network that sees the channels' means.

    Args:
        channels: channels of the input.
        reduction: how much narrower the hidden layer is.
    """

    def __init__(self, channels, reduction=4, seed=0):
        if channels % reduction:
            raise ValueError(f"channels={channels} is no multiple of reduction={reduction}")
        rng = np.random.default_rng(seed)
        self.squeeze = glorot(rng, channels, channels // reduction)
        self.excite = glorot(rng, channels // reduction, channels)

    def __call__(self, x):
        """(batch, channels, height, width) -> the same shape."""
        hidden = np.maximum(x.mean(axis=(2, 3)) @ self.squeeze, 0.0)
        gate = 1.0 / (1.0 + np.exp(-hidden @ self.excite))
        return x * gate[:, :, None, None]
