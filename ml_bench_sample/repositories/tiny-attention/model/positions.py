"""Where a token stands."""

import numpy as np


def sinusoids(tokens, d_model, base=10000.0):
    """Sine and cosine waves of falling frequency -> (tokens, d_model); d_model must be even."""
    if d_model % 2:
        raise ValueError(f"d_model={d_model} is odd")
    angles = np.arange(tokens)[:, None] / base ** (2.0 * np.arange(d_model // 2) / d_model)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def causal_mask(tokens):
    """True above the diagonal: what lies in a token's future."""
    return np.triu(np.ones((tokens, tokens), dtype=bool), k=1)
