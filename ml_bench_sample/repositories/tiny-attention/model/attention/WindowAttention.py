"""Self-attention inside windows of neighbouring tokens."""

from model.attention.DotAttention import DotAttention


class WindowAttention:
    """Cut the tokens into windows and attend inside each.

    Args:
        d_model: features of the input and of the output.
        window: tokens in a window; must divide the number of tokens.
        h: number of heads.
    """

    def __init__(self, d_model, window, h=1, seed=0):
        self.window = window
        self.inner = DotAttention(d_model, d_model // h, d_model // h, h, seed)

    def __call__(self, x):
        """(batch, n, d_model) -> (batch, n, d_model)."""
        batch, n, d_model = x.shape
        if n % self.window:
            raise ValueError(f"{n} tokens cannot be cut into windows of {self.window}")
        parts = x.reshape(batch * n // self.window, self.window, d_model)
        return self.inner(parts, parts, parts).reshape(batch, n, d_model)
