"""Prices of models, from a file."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from ml_bench_metric.sandbox.execution import Record
from ml_bench_solvers.generation.answers import Usage
from ml_bench_solvers.generation.errors import GenerationError

_TOKENS = 1_000_000

_FORM = "write `MODEL: {input: PRICE, output: PRICE}`, prices per million tokens"


class Price(Record):
    """What a model costs, per million tokens, in whatever currency the file has."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)

    def of(self, usage: Usage) -> float:
        """Return what some tokens cost."""
        return (usage.prompt_tokens * self.input + usage.completion_tokens * self.output) / _TOKENS


_PRICES = TypeAdapter(dict[str, Price])


def read_price(path: Path, model: str) -> Price:
    """Return the price of a model, from a YAML or JSON file `{model: {input: …, output: …}}`.

    Raises:
        GenerationError: there is no such file, it is none of prices, or has none for the model.
    """
    try:
        prices = _PRICES.validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise GenerationError(f"{path} cannot be read: {error.strerror or error}; give a file of prices") from error
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise GenerationError(f"{path} is no file of prices: {where or 'it'}: {fault['msg']}; {_FORM}") from error
    except (ValueError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise GenerationError(f"{path} is no file of prices: {reason}; {_FORM}") from error
    if model not in prices:
        raise GenerationError(
            f"{path} has no price for model {model!r}, only for {', '.join(sorted(prices)) or 'none'}; {_FORM}"
        )
    return prices[model]
