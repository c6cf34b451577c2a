"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import typer

BAD_INPUT = 2
"""Exit status for input that cannot be used."""
NOTHING_EXECUTED = 3
"""Exit status where nothing could be executed."""
INTERRUPTED = 130
"""Exit status of a run that was ended early."""

Tasks = Annotated[
    str | None,
    typer.Option(
        "--tasks",
        "--source",
        metavar="SOURCE",
        envvar="ML_BENCH_SOURCE",
        help="Where the tasks are: `sample`, a folder like upstream's Hub repository, a parquet, JSON or JSONL file, "
        "or a Hub data set. By default upstream's data set.",
    ),
]
Split = Annotated[
    str,
    typer.Option(help="Split of the tasks: L (= full), A (= quarter), full, quarter, id_train, ood_train."),
]
Revision = Annotated[str | None, typer.Option(help="Revision of the Hub data set.")]
Extract = Annotated[
    Literal["auto", "none"],
    typer.Option(help="auto: take the program out of the answer's text; none: the text is the program."),
]
RuleOption = Annotated[
    Literal["original", "strict"],
    typer.Option("--rule", help="The rule that leads the table; verdicts of both are always made."),
]

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def parse_size(text: str) -> int:
    """Return a number of bytes: `512m`, `8g`, `65536`; k, m and g are powers of 1024.

    Raises:
        typer.BadParameter: it is none.
    """
    found = re.fullmatch(r"(\d+)([kmg]?)(?:i?b)?", text.strip().lower())
    if not found:
        raise typer.BadParameter(f"{text!r} is no size; write for example 512m or 8g")
    return int(found[1]) * _UNITS[found[2]]


def parse_ks(text: str) -> tuple[int, ...]:
    """Return the values of k of `1,2,5`, ascending, each once.

    Raises:
        typer.BadParameter: it is no such list.
    """
    try:
        ks = sorted({int(part) for part in text.replace(" ", "").split(",")})
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no list of whole numbers; write for example 1,2,5") from error
    if ks[0] < 1:
        raise typer.BadParameter(f"k = {ks[0]} makes no sense; k starts at 1")
    return tuple(ks)


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names of `a,b,c`, each once, in their order."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
