"""Forecasters: past of shape (n, seq_len, columns) -> future of shape (n, pred_len, columns)."""

from models.decomposed import Decomposed
from models.linear import Linear
from models.seasonal import SeasonalNaive

MODELS = {"Linear": Linear, "Decomposed": Decomposed, "SeasonalNaive": SeasonalNaive}
