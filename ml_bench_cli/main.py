"""The entry point of `ml-bench`: gathers the commands, and turns errors into one line and an exit status."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from ml_bench_cli import (
    agent,
    assets,
    cache,
    check,
    doctor,
    evaluate,
    export_requests,
    export_trajectories,
    generate,
    hub,
    images,
    import_answers,
    prompt,
    register,
    rejudge,
    show,
    tasks,
    validate,
)
from ml_bench_cli.options import BAD_INPUT, INTERRUPTED, NOTHING_EXECUTED

app = typer.Typer(
    name="ml-bench",
    help="ML-Bench: execute candidates in containers, and compute Pass@k that can be trusted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("generate")(generate.generate)
app.command("agent")(agent.agent)
app.command("evaluate")(evaluate.evaluate)
app.command("validate")(validate.validate)
app.command("check")(check.check)
app.command("tasks")(tasks.tasks)
app.command("prompt")(prompt.prompt)
app.command("doctor")(doctor.doctor)
app.command("export-requests")(export_requests.export_requests)
app.command("export-trajectories")(export_trajectories.export_trajectories)
app.command("import-answers")(import_answers.import_answers)
app.command("rejudge")(rejudge.rejudge)
app.command("show")(show.show)
app.command("register")(register.register)
app.add_typer(images.app, name="images")
app.add_typer(assets.app, name="assets")
app.add_typer(cache.app, name="cache")
app.add_typer(hub.app, name="hub")


def _print_version(wanted: bool) -> None:
    if wanted:
        from ml_bench_metric.judge import harness_version

        print(f"ml-bench {harness_version()}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line.

    Exit status: 0 done, 1 a check found something, 2 bad input, 3 nothing could be executed, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe that is not UTF-8 must not turn a character of a candidate into a crash.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output (`| head`) has seen enough. Python would complain once more when it flushes.
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        status = _status_of(error)
        if status is None:
            raise
        _fail(str(error), status)


def _status_of(error: Exception) -> int | None:
    """Return the exit status of an error that a person can mend; None for a fault of ours, which shows its trace."""
    from ml_bench_dataset import DataError
    from ml_bench_hub.errors import HubError
    from ml_bench_metric.environments.archive import ArchiveError
    from ml_bench_metric.environments.base import BaseUnknown
    from ml_bench_metric.environments.build_log import BuildError
    from ml_bench_metric.environments.recipe import RecipeError
    from ml_bench_metric.environments.registry import EnvironmentUnknown
    from ml_bench_metric.predictions import PredictionsError
    from ml_bench_metric.sandbox.protocol import SandboxError
    from ml_bench_metric.store import RunError
    from ml_bench_metric.syntax import BashMissingError
    from ml_bench_solvers.agents.workspace import AgentError, WorkspaceError
    from ml_bench_solvers.batch import BatchError
    from ml_bench_solvers.generation.errors import GenerationError, GenerationStopped
    from ml_bench_solvers.prompt_error import PromptError

    of_data = (DataError, PredictionsError, RunError, HubError)
    of_environments = (RecipeError, EnvironmentUnknown, BaseUnknown, ArchiveError)
    of_solvers = (AgentError, BatchError, GenerationError, PromptError)
    if isinstance(error, (*of_data, *of_environments, *of_solvers)):
        return BAD_INPUT
    if isinstance(error, (SandboxError, WorkspaceError, BuildError, BashMissingError, GenerationStopped)):
        return NOTHING_EXECUTED
    return None


def _fail(message: str, status: int) -> None:
    print(f"ml-bench: {message}", file=sys.stderr)
    sys.exit(status)
