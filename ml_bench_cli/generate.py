"""`ml-bench generate`: ask a model for answers to the tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import INTERRUPTED, NOTHING_EXECUTED, Quiet, Revision, Split, Tasks, parse_names
from ml_bench_cli.progress import GenerationProgress
from ml_bench_cli.prompting import (
    BudgetOption,
    FromImages,
    Limit,
    Mirrors,
    Prompting,
    Stride,
    TemplateOption,
    Tokenizer,
    UnitOption,
    Window,
)
from ml_bench_cli.running import interrupts, shown
from ml_bench_cli.sampling import read_sampling

if TYPE_CHECKING:
    from rich.console import Console

    from ml_bench_metric.tasks import TaskSet
    from ml_bench_solvers.generation.folder import GenerationFolder
    from ml_bench_solvers.generation.work import Work

_STATUSES = ("ok", "empty", "refusal", "length", "error")


def generate(
    model: Annotated[str, typer.Option(help="The model, by the name that its server or the Hub knows.")],
    out: Annotated[Path, typer.Option(help="Folder of the answers, as they come, to be gone on with.")],
    setting: Annotated[
        Literal["code", "retrieval", "oracle", "instruction"],
        typer.Option(help="What of the repository the model is shown."),
    ] = "oracle",
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    only: Annotated[
        str, typer.Option("--only", metavar="NAMES", help="Only the tasks of these, separated by commas.")
    ] = "",
    mirrors: Mirrors = None,
    from_images: FromImages = False,
    budget: BudgetOption = "100k",
    tokenizer: Tokenizer = None,
    unit: UnitOption = "sentence",
    window: Window = None,
    stride: Stride = 1,
    limit: Limit = None,
    template: TemplateOption = None,
    base_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible server, for example http://localhost:8000/v1.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="One of Hugging Face's Inference Providers; by default Hugging Face chooses.")
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Environment variable with the API key. By default Hugging Face's token, and no key for other hosts.",
        ),
    ] = None,
    backend: Annotated[
        Literal["server", "vllm", "transformers"],
        typer.Option(help="Who runs the model: a server; or this process, with the extra of that name."),
    ] = "server",
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Answers to each task.")] = 5,
    temperature: Annotated[float, typer.Option(min=0, help="As in the paper.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="As in the paper; above 0, up to 1.")] = 1.0,
    max_tokens: Annotated[
        int, typer.Option(min=0, help="Tokens of an answer at the most; 0: as many as the server lets it have.")
    ] = 2048,
    seed: Annotated[int | None, typer.Option(help="Of the first answer; answer i has seed + i.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Text at which an answer ends; may be repeated.")] = None,
    extra: Annotated[
        str, typer.Option(metavar="JSON", help='Further fields of the request: \'{"reasoning_effort": "low"}\'.')
    ] = "",
    stream: Annotated[bool, typer.Option("--stream", help="Let answers come in pieces.")] = False,
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Requests at a time.")] = 8,
    requests_per_minute: Annotated[float | None, typer.Option(min=0.01, help="Requests a minute at the most.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that a request may take in all.")] = 600.0,
    attempts: Annotated[int, typer.Option(min=1, help="How often a request is sent at the most.")] = 6,
    prices: Annotated[
        Path | None, typer.Option(help="YAML or JSON file `{MODEL: {input: …, output: …}}`, per million tokens.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Begin no request once so much is spent, in the currency of --prices.")
    ] = None,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Ask again for what failed.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Record failures as errors, even where every request fails.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Where --out holds another generation, put that aside.")
    ] = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="The numbers as JSON instead of lines.")] = False,
) -> None:
    """Ask a model for answers to the tasks, and write them as predictions.

    The same command goes on where it stopped; no answer is paid twice. Ctrl-C lets the requests that run come to their
    end; a second one stops at once.
    """
    from rich.console import Console

    from ml_bench_metric.evaluation import Stop
    from ml_bench_solvers.generation import client, local
    from ml_bench_solvers.generation.prices import read_price
    from ml_bench_solvers.generation.recording import Recorder
    from ml_bench_solvers.generation.run import Manner
    from ml_bench_solvers.generation.server import run_on_server
    from ml_bench_solvers.generation.totals import totals
    from ml_bench_solvers.generation.work import Work

    if not model.strip() or not model.isprintable():
        raise typer.BadParameter("--model is no name of a model")
    if model.startswith(("http://", "https://")):
        raise typer.BadParameter("--model is a URL; give that as --base-url, and the model's name as --model")
    sampling = read_sampling(temperature, top_p, max_tokens, seed, stop or [], extra)
    if max_cost is not None and prices is None:
        raise typer.BadParameter("--max-cost needs --prices")
    _check_backend(backend, base_url, provider, api_key_env, stream)
    place = client.endpoint(base_url, provider, api_key_env) if backend == "server" else None
    manner = Manner(
        concurrency=concurrency,
        max_cost=max_cost,
        keep_going=keep_going,
        stream=stream,
        deadline=timeout,
        attempts=attempts,
        per_minute=requests_per_minute,
    )
    price = read_price(prices, model) if prices else None
    console = Console(stderr=True, emoji=False)
    every_task = read_tasks(source, split, revision)
    tasks = every_task.only(parse_names(only)) if only else every_task
    prompting = Prompting(
        *(mirrors, from_images, budget, tokenizer, unit, window, stride, limit, template), quiet=quiet
    )
    (maker,) = prompting.makers([setting])
    work = Work.of(((task, maker.make(task)) for task in tasks.tasks), model, sampling, n)
    asked = Stop()
    with _open_folder(out, work, every_task, tasks, base_url or provider or backend, restart, console) as folder:
        folder.keep(work.prompts)
        recorder = Recorder(folder, model, price)
        questions = work.questions(folder, retry_errors=retry_errors)
        todo = sum(len(question.indices) for question in questions)
        if todo < n * len(work.prompts):
            console.print(
                f"{n * len(work.prompts) - todo} of {n * len(work.prompts)} answers are in {shown(out)}; {todo} to go",
                soft_wrap=True,
            )
        out_of_money = False
        try:
            with interrupts(asked, console), GenerationProgress(console, todo, visible=not quiet) as progress:
                if place is not None:
                    out_of_money = run_on_server(
                        place, model, questions, recorder, folder.path, manner, asked, progress.advance
                    )
                elif questions and backend != "server":
                    console.print(f"loading {shown(model)}")
                    local_model = local.load(backend, model)
                    local.run_locally(questions, local_model, recorder, asked, progress.advance)
        finally:
            folder.write_predictions()
            numbers = totals(folder, work, price)
            folder.write_summary(numbers)
    if as_json:
        print(json.dumps(numbers, indent=2))
    else:
        _print_numbers(numbers, out)
    answers = numbers["answers"]
    if out_of_money:
        console.print(f"--max-cost {max_cost:g} is spent; the same command with a higher one goes on")
        raise typer.Exit(INTERRUPTED)
    if asked.finish:
        console.print("stopped early; the same command goes on")
        raise typer.Exit(INTERRUPTED)
    if answers["error"] == answers["known"]:
        raise typer.Exit(NOTHING_EXECUTED)


def _check_backend(
    backend: str, base_url: str | None, provider: str | None, api_key_env: str | None, stream: bool
) -> None:
    given = {"--base-url": base_url, "--provider": provider, "--api-key-env": api_key_env, "--stream": stream or None}
    useless = [name for name, value in given.items() if value is not None]
    if backend != "server" and useless:
        raise typer.BadParameter(f"{useless[0]} is about a server, and --backend {backend} runs the model here")


def _open_folder(
    out: Path, work: Work, every_task: TaskSet, tasks: TaskSet, place: str, restart: bool, console: Console
) -> GenerationFolder:
    from ml_bench_metric.judge import harness_version
    from ml_bench_metric.store import OtherRunError, put_aside
    from ml_bench_solvers.generation.folder import GenerationFolder

    # Of all tasks: who has asked about some can ask about the others later.
    identity = {**work.identity, "tasks": {"digest": every_task.digest, "split": every_task.split}}
    # Keys are never arguments: the command can be told.
    about = {
        "harness_version": harness_version(),
        "command": sys.argv,
        "place": place,
        "tasks_from": tasks.origin,
        "repositories": list(tasks.selection),
    }
    try:
        return GenerationFolder(out, identity, about, work.keys)
    except OtherRunError:
        if not restart:
            raise
    # Before it is renamed: `.` would go along with the folder.
    path = out.resolve()
    console.print(f"{shown(out)} held another generation; it is now {shown(put_aside(path))}", soft_wrap=True)
    return GenerationFolder(path, identity, about, work.keys)


def _print_numbers(numbers: dict[str, Any], out: Path) -> None:
    answers, paid = numbers["answers"], numbers["paid"]
    kinds = ", ".join(f"{answers[status]} {status}" for status in _STATUSES if answers[status])
    print(f"{answers['known']} of {answers['wanted']} answers" + (f": {kinds}" if kinds else ""))
    tokens = f"{paid['prompt_tokens']} tokens in, {paid['completion_tokens']} out"
    cost = "" if paid["cost"] is None else f", cost {paid['cost']:.4f}"
    unknown = f" (without {paid['without_usage']} answers that came without a count)" if paid["without_usage"] else ""
    print(tokens + cost + unknown)
    if answers["error"]:
        print(f"{answers['error']} requests failed and stand as empty answers; --retry-errors asks again")
    done, wanted = numbers["tasks_complete"], numbers["tasks_wanted"]
    print(f"{done} of {wanted} tasks are in {out / 'predictions.jsonl'}")
