"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from ml_bench_metric.environments.images import AssetsWanted

UNEXPECTED = 1
"""Exit status where references did not do what is known of them, or a check found a fault."""
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

AssetsOption = Annotated[
    Literal["auto", "none", "stand-in", "real"],
    typer.Option("--assets", help="Weights and data of the images; auto: real where built, else stand-ins, else none."),
]

Repositories = Annotated[str, typer.Option(help="Only the tasks of these, separated by commas.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the run: results as they come, to be gone on with.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Candidates at a time; by default as many as fit.")]
Oversubscribe = Annotated[
    bool, typer.Option("--oversubscribe", help="Let workers share CPUs and memory; verdicts then depend on load.")
]
LimitTime = Annotated[
    float | None,
    typer.Option(
        min=0.1, help="Seconds per candidate; by default the original's (10; vid2vid 4; timm Python 7; run.sh 120)."
    ),
]
LimitCpus = Annotated[int, typer.Option(min=1, help="CPUs that a candidate owns.")]
LimitMemory = Annotated[str, typer.Option(help="Memory per candidate.")]
LimitDisk = Annotated[str, typer.Option(help="Disk space per candidate.")]
LimitTmp = Annotated[str, typer.Option(help="Size of /tmp per candidate.")]
LimitOutput = Annotated[str, typer.Option(help="Output per candidate.")]
LimitProcesses = Annotated[int, typer.Option(min=8, help="Processes per candidate.")]
Gpus = Annotated[int, typer.Option(min=0, help="GPUs per candidate; it runs in an image for GPUs then.")]
Image = Annotated[str | None, typer.Option(help="Run everything in this image.")]
SandboxOption = Annotated[
    Literal["docker", "process"],
    typer.Option(
        "--sandbox",
        help="Where candidates run: containers; or processes of this machine, which stop no hostile program "
        "(needs HF_ALLOW_CODE_EVAL=1; --image is then a folder of repositories).",
    ),
]
RetryErrors = Annotated[bool, typer.Option("--retry-errors", help="Run again what ended with an environment error.")]
Restart = Annotated[
    bool, typer.Option("--restart", help="Where --out holds a run with other settings or images, put that aside.")
]
NoCache = Annotated[
    bool,
    typer.Option("--no-cache", help="Execute every candidate, though the execution of an identical one is known."),
]
SkipChecks = Annotated[
    bool,
    typer.Option(
        "--skip-checks",
        help="Do not try out the machine before anything runs; the numbers say so, and no execution is cached.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def assets_wanted(option: Literal["auto", "none", "stand-in", "real"]) -> AssetsWanted:
    """Return the value of `--assets` as the judge writes it."""
    return "stand_in" if option == "stand-in" else option


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
