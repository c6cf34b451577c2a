"""`ml-bench export-requests`: prompts as files for engines that answer in batches."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import Revision, Split, Tasks, parse_names
from ml_bench_cli.prompting import BudgetOption, FromImages, Mirrors, Prompting, TemplateOption, Tokenizer, UnitOption


def export_requests(
    out: Annotated[
        Path, typer.Option(help="File to write: .jsonl for OpenAI's batch API, .parquet for a table of prompts.")
    ],
    model: Annotated[str, typer.Option(help="Name of the model in the requests; .jsonl needs it.")] = "",
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    only: Annotated[
        str, typer.Option("--only", metavar="NAMES", help="Only the tasks of these, separated by commas.")
    ] = "",
    setting: Annotated[
        Literal["code", "retrieval", "oracle", "instruction"],
        typer.Option(help="What of the repository the model is shown."),
    ] = "oracle",
    mirrors: Mirrors = None,
    from_images: FromImages = False,
    budget: BudgetOption = "100k",
    tokenizer: Tokenizer = None,
    unit: UnitOption = "sentence",
    template: TemplateOption = None,
    answers: Annotated[int, typer.Option("-n", "--answers", min=1, help="Answers per task.")] = 5,
    together: Annotated[
        bool, typer.Option("--together", help="One request for all answers to a task (`n`), instead of one for each.")
    ] = False,
    temperature: Annotated[float | None, typer.Option(min=0.0, help="By default the server's.")] = None,
    top_p: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="By default the server's.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Per answer; by default the server's.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of the first answer to a task; each request of its own has the next.")
    ] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Text that ends an answer; can be repeated.")] = None,
    body: Annotated[
        str,
        typer.Option(
            metavar="JSON",
            help='Further fields of requests, such as {"reasoning_effort": "low"}; null removes one.',
        ),
    ] = "{}",
    max_requests: Annotated[int, typer.Option(min=1, help="Per file; OpenAI takes 50,000.")] = 50_000,
    max_bytes: Annotated[int, typer.Option(min=1, help="Per file; OpenAI takes 200 MB.")] = 200_000_000,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the files of an earlier export.")] = False,
) -> None:
    """Write a request for each answer to each task, for OpenAI's batch API or any engine that reads parquet.

    Several files are written where one would be too large. `ml-bench import-answers` reads the answers back.
    """
    from ml_bench_solvers import batch

    if out.suffix not in (batch.REQUESTS_SUFFIX, batch.PROMPTS_SUFFIX):
        raise typer.BadParameter(f"--out {out}: end it in .jsonl (OpenAI's batch API) or .parquet (a table of prompts)")
    if out.suffix == batch.REQUESTS_SUFFIX and not model:
        raise typer.BadParameter("--model: a request names its model; give the server's name for it")
    tasks = read_tasks(source, split, revision)
    if only:
        tasks = tasks.only(parse_names(only))
    prompting = Prompting(mirrors, from_images, budget, tokenizer, unit, template=template)
    (maker,) = prompting.makers([setting])
    prompts = ((task, maker.make(task)) for task in tasks.tasks)
    if out.suffix == batch.PROMPTS_SUFFIX:
        written = batch.write_prompts(prompts, out, replace=replace)
    else:
        sampling = batch.Sampling(temperature, top_p, max_tokens, seed, tuple(stop or ()))
        requests = batch.requests(prompts, model, answers, sampling, together=together, extra=_fields(body))
        written = batch.write_requests(requests, out, replace=replace, most_requests=max_requests, most_bytes=max_bytes)
    for path in written.files:
        print(path)
    what = "prompts" if out.suffix == batch.PROMPTS_SUFFIX else "requests"
    print(f"{written.requests} {what} for {len(tasks.tasks)} tasks, setting {setting}", file=sys.stderr)


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise typer.BadParameter(f"--body is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise typer.BadParameter('--body is no JSON object; write for example \'{"reasoning_effort": "low"}\'')
    return fields


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")
