"""`ml-bench agent`: let an agent work on tasks, and judge what it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ml_bench_cli.agent_model import (
    AgentTemplate,
    BaseUrl,
    Characters,
    Extra,
    KeyVariable,
    MaxTokens,
    ModelName,
    ModelWay,
    PerMinute,
    Prices,
    ProtocolOption,
    Provider,
    RequestTimeout,
    Seed,
    Streams,
    Temperature,
    Tokens,
    TopP,
)
from ml_bench_cli.agent_run import Plan, allowed_by, judge_what_was_left, store_report, work
from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import (
    INTERRUPTED,
    AssetsOption,
    Image,
    NoCache,
    Oversubscribe,
    Quiet,
    Repositories,
    Restart,
    RetryErrors,
    Revision,
    RuleOption,
    SkipChecks,
    Split,
    Tasks,
    parse_names,
    parse_size,
)
from ml_bench_cli.running import Way, read_way, shown

if TYPE_CHECKING:
    from ml_bench_solvers.agents.budget import Budget
    from ml_bench_solvers.agents.changes import ChangeLimits
    from ml_bench_solvers.agents.docker_workspace import Site
    from ml_bench_solvers.agents.workspace import Agent

Kind = Literal["oracle", "nop", "react", "command"]


def agent(
    kind: Annotated[
        Kind,
        typer.Option(
            "--agent",
            help="oracle writes the reference, nop does nothing; react is a loop of --model and tools; command is any "
            "program, see --command.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the run: attempts and results as they come, to be gone on with.")
    ],
    command: Annotated[
        str | None,
        typer.Option(
            help="The program of --agent command, one line of bash; it finds its task in ML_BENCH_… variables."
        ),
    ] = None,
    inside: Annotated[bool, typer.Option("--inside", help="Run --command in the container.")] = False,
    label: Annotated[str, typer.Option(help="What the agent of --command is called; by default its first word.")] = "",
    model: ModelName = None,
    base_url: BaseUrl = None,
    provider: Provider = None,
    api_key_env: KeyVariable = None,
    protocol: ProtocolOption = "auto",
    temperature: Temperature = 1.0,
    top_p: TopP = 1.0,
    max_tokens: MaxTokens = 4096,
    seed: Seed = None,
    extra: Extra = "",
    context: Characters = 200_000,
    context_tokens: Tokens = None,
    template: AgentTemplate = None,
    stream: Streams = False,
    timeout: RequestTimeout = 600.0,
    requests_per_minute: PerMinute = None,
    prices: Prices = None,
    source: Tasks = None,
    split: Split = "A",
    revision: Revision = None,
    repositories: Repositories = "",
    start: Annotated[
        Literal["prepared", "bare"],
        typer.Option(help="What agents find: the environment, or a base system and the repository alone."),
    ] = "prepared",
    network: Annotated[
        Literal["none", "allowlist", "full"],
        typer.Option(
            help="What agents reach: nothing, the hosts that --allow names, or (full) all that the machine reaches; "
            "what they leave is judged without."
        ),
    ] = "none",
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="HOST[:PORT]",
            help="A host that --network allowlist reaches, or *.HOST for all below it, at ports 80 and 443 or the one "
            "given; may be repeated.",
        ),
    ] = None,
    host_network: Annotated[
        bool, typer.Option("--host-network", help="With --network full: the machine's own, its loopback included.")
    ] = False,
    variables: Annotated[
        list[str] | None,
        typer.Option("--variable", metavar="NAME=VALUE", help="Environment variable of the agents' commands."),
    ] = None,
    attempts: Annotated[int, typer.Option("--attempts", "-n", min=1, help="Attempts at each task.")] = 1,
    max_turns: Annotated[
        int | None, typer.Option(min=0, help="Turns of an attempt; 0: any number. By default 10, as published.")
    ] = None,
    max_seconds: Annotated[float, typer.Option(min=1, help="Wall time of an attempt.")] = 1800.0,
    max_cost: Annotated[float | None, typer.Option(min=0, help="Money of an attempt.")] = None,
    max_total_cost: Annotated[float | None, typer.Option(min=0, help="Money of the whole run.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Agents at a time; by default as many as fit.")] = None,
    oversubscribe: Oversubscribe = False,
    limit_cpus: Annotated[int, typer.Option(min=1, help="CPUs of an agent.")] = 1,
    limit_memory: Annotated[str, typer.Option(help="Memory of an agent.")] = "16g",
    limit_disk: Annotated[str, typer.Option(help="Disk space of an agent.")] = "16g",
    limit_tmp: Annotated[str, typer.Option(help="Size of /tmp of an agent.")] = "4g",
    limit_processes: Annotated[int, typer.Option(min=8, help="Processes of an agent.")] = 2048,
    max_changes: Annotated[
        str | None,
        typer.Option(
            help="Bytes that an agent may leave; more is judged as failed. By default 512m, and 4g with bare."
        ),
    ] = None,
    max_changed_files: Annotated[
        int | None,
        typer.Option(min=1, help="Files that an agent may leave; by default 20000, and 100000 with bare."),
    ] = None,
    limit_time: Annotated[float | None, typer.Option(min=0.1, help="Seconds of run.sh; by default 120.")] = None,
    judge_memory: Annotated[str, typer.Option(help="Memory of run.sh.")] = "8g",
    image: Image = None,
    assets: AssetsOption = "auto",
    rule: RuleOption = "original",
    retry_errors: RetryErrors = False,
    restart: Restart = False,
    skip_checks: SkipChecks = False,
    no_cache: NoCache = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="The numbers as JSON instead of the table.")] = False,
) -> None:
    """Let an agent work on every task in a container, and run the `run.sh` that it leaves in a fresh one.

    The same command with the same --out goes on where it stopped. Ctrl-C lets agents that work come to their end; a
    second one ends them at once, and their attempts are made again.
    """
    from rich.console import Console

    from ml_bench_metric.sandbox.limits import SCRIPT_SECONDS
    from ml_bench_solvers.agents.report import render

    console = Console(stderr=True, emoji=False)
    judges_way = read_way(
        extract="none",
        limit_time=limit_time,
        limit_cpus=1,
        limit_memory=judge_memory,
        limit_disk="8g",
        limit_tmp="1g",
        limit_output="64m",
        limit_processes=512,
        gpus=0,
        image=image,
        assets=assets,
        out=out,
        workers=None,
        oversubscribe=oversubscribe,
        retry_errors=retry_errors,
        restart=False,
        quiet=quiet,
        cache=not no_cache,
        skip_checks=skip_checks,
    )
    judges_way = replace(judges_way, bare=start == "bare")
    agents_way = read_way(
        extract="none",
        limit_time=None,
        limit_cpus=limit_cpus,
        limit_memory=limit_memory,
        limit_disk=limit_disk,
        limit_tmp=limit_tmp,
        limit_output="256m",
        limit_processes=limit_processes,
        gpus=0,
        image=image,
        assets=assets,
        out=out,
        workers=workers,
        oversubscribe=oversubscribe,
        retry_errors=retry_errors,
        restart=restart,
        quiet=quiet,
    )
    agents_way = replace(agents_way, bare=start == "bare")
    site = _site(
        agents_way,
        start,
        network,
        host_network,
        allow or [],
        variables or [],
        max_seconds,
        _changes(start, max_changes, max_changed_files),
    )
    budget = _budget(kind, max_turns, max_seconds, max_cost)
    one: Agent
    if kind == "react":
        from ml_bench_solvers.agents.react import Conduct

        _check_command(command, inside, label)
        way = ModelWay(
            *(model, base_url, provider, api_key_env, temperature, top_p, max_tokens, seed, extra),
            *(template, stream, timeout, requests_per_minute, prices),
        )
        conduct = Conduct(
            protocol=protocol,
            characters=context,
            tokens=context_tokens,
            turns=budget.max_turns,
            seconds=max_seconds,
            judged_seconds=limit_time or SCRIPT_SECONDS,
            start=start,
            network=network,
            allowed=allowed_by(site),
        )
        one = way.agent(out, conduct, limits_cost=max_cost is not None or max_total_cost is not None)
    else:
        if model is not None:
            raise typer.BadParameter("--model is for --agent react")
        one = _agent(kind, command, inside, label, max_seconds)
    every_task = read_tasks(source, split, revision)
    tasks = every_task.only(parse_names(repositories)) if repositories else every_task
    plan = Plan(one, tasks, site, budget, attempts, max_total_cost, out, agents_way, judges_way, command)
    ended, purse, stopped = work(plan, console)
    if stopped:
        console.print("stopped early; the same command goes on")
        raise typer.Exit(INTERRUPTED)
    summary = judge_what_was_left(plan, ended, rule, console)
    report = store_report(plan, summary, ended, purse.spent)
    if as_json:
        print(report.to_json(indent=2))
    else:
        render(report, Console())
    console.print(f"attempts, results and numbers are in {shown(out)}", soft_wrap=True)
    if purse.empty and len(ended) < attempts * len(tasks.tasks):
        console.print(f"--max-total-cost {max_total_cost:g} is spent; the same command with a higher one goes on")
        raise typer.Exit(INTERRUPTED)


def _changes(start: Literal["prepared", "bare"], size: str | None, files: int | None) -> ChangeLimits:
    """Return how much an agent may leave: an environment of its own is larger than a few files."""
    from ml_bench_solvers.agents.changes import BARE_LIMITS, ChangeLimits

    usual = BARE_LIMITS if start == "bare" else ChangeLimits()
    number = usual.bytes if size is None else parse_size(size)
    if number < 1:
        raise typer.BadParameter("--max-changes is nothing; run.sh alone has some bytes")
    return ChangeLimits(bytes=number, files=files or usual.files)


def _site(
    way: Way,
    start: Literal["prepared", "bare"],
    network: Literal["none", "allowlist", "full"],
    host_network: bool,
    allow: list[str],
    variables: list[str],
    seconds: float,
    changes: ChangeLimits,
) -> Site:
    from ml_bench_solvers.agents.allowed_hosts import AllowedHosts
    from ml_bench_solvers.agents.docker_workspace import LIMITS, Site

    if host_network and network != "full":
        raise typer.BadParameter("--host-network is a way to have --network full; give that too")
    if (network == "allowlist") != bool(allow):
        raise typer.BadParameter("--network allowlist and --allow HOST belong together; give both or neither")
    try:
        allowed = AllowedHosts.parse(allow) if allow else None
    except ValueError as error:
        raise typer.BadParameter(f"--allow: {error}") from error
    pairs = [variable.partition("=") for variable in variables]
    if wrong := [name for name, equals, _ in pairs if not equals or not name.isidentifier()]:
        raise typer.BadParameter(f"--variable {wrong[0]!r} is none; write NAME=VALUE")
    limits = way.settings.limits.model_copy(update={"shm_bytes": LIMITS.shm_bytes, "kept_bytes": LIMITS.kept_bytes})
    return Site(
        start=start,
        network=network,
        limits=limits,
        changes=changes,
        variables={name: value for name, _, value in pairs},
        seconds=seconds,
        host_network=host_network,
        allowed=allowed,
    )


def _budget(kind: Kind, max_turns: int | None, max_seconds: float, max_cost: float | None) -> Budget:
    from ml_bench_solvers.agents.budget import PUBLISHED_TURNS, Budget

    if max_turns is None:
        # What a program does in its turns nobody here knows.
        max_turns = 0 if kind == "command" else PUBLISHED_TURNS
    return Budget(max_turns=max_turns or None, max_seconds=max_seconds, max_cost=max_cost)


def _agent(kind: Kind, command: str | None, inside: bool, label: str, seconds: float) -> Agent:
    from ml_bench_solvers.agents.command import Command
    from ml_bench_solvers.agents.nop import Nop
    from ml_bench_solvers.agents.oracle import Oracle

    if kind != "command":
        _check_command(command, inside, label)
        return Oracle() if kind == "oracle" else Nop()
    if command is None:
        raise typer.BadParameter("--agent command needs --command 'PROGRAM …'")
    return Command(command, label=label, inside=inside, seconds=seconds)


def _check_command(command: str | None, inside: bool, label: str) -> None:
    if command is not None or inside or label:
        raise typer.BadParameter("--command, --inside and --label are for --agent command")
