"""Options that say how a model's answers are drawn, as `generate` and `agent` have them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ml_bench_solvers.generation.answers import Sampling

_OWN_FIELDS = {"messages", "model", "n", "seed", "stream", "stream_options", "tools"}


def read_sampling(
    temperature: float, top_p: float, max_tokens: int, seed: int | None, stop: list[str], extra: str
) -> Sampling:
    """Return what the options of sampling say; `extra` is JSON, and `max_tokens` 0 is no limit.

    Raises:
        typer.BadParameter: one of them is out of its range.
    """
    from pydantic import ValidationError

    from ml_bench_solvers.generation.answers import Sampling

    try:
        fields = json.loads(extra) if extra else {}
    except ValueError as error:
        raise typer.BadParameter(f"--extra is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise typer.BadParameter('--extra is no JSON object; write for example \'{"reasoning_effort": "low"}\'')
    if taken := sorted(fields.keys() & _OWN_FIELDS):
        raise typer.BadParameter(f"--extra cannot set {taken[0]!r}, which the command sets itself")
    if not all(stop):
        raise typer.BadParameter("--stop is empty: every answer would end before it begins")
    try:
        return Sampling(
            temperature=temperature,
            top_p=top_p,
            max_tokens=max_tokens or None,
            seed=seed,
            stop=tuple(stop),
            extra=fields,
        )
    except ValidationError as error:
        fault = error.errors()[0]
        raise typer.BadParameter(f"--{'-'.join(map(str, fault['loc']))}: {fault['msg']}".replace("_", "-")) from error
