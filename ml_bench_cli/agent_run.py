"""A run of agents, from what the command's options say: working, judging, and the numbers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ml_bench_cli.agent_model import connected, identity_of
from ml_bench_cli.progress import AgentProgress
from ml_bench_cli.running import Way, end_early, executed, interrupts, open_folder, open_place, shown

if TYPE_CHECKING:
    from docker import DockerClient
    from rich.console import Console

    from ml_bench_cli.running import Place
    from ml_bench_metric.evaluation import Settings
    from ml_bench_metric.judge import Images
    from ml_bench_metric.sandbox.protocol import Slot
    from ml_bench_metric.store import RunFolder
    from ml_bench_metric.summary import Summary
    from ml_bench_metric.tasks import Task, TaskSet
    from ml_bench_solvers.agents.attempts import Attempt
    from ml_bench_solvers.agents.budget import Budget, Meter, Purse
    from ml_bench_solvers.agents.docker_workspace import DockerWorkspace, Site
    from ml_bench_solvers.agents.report import AgentReport
    from ml_bench_solvers.agents.running import Open
    from ml_bench_solvers.agents.trajectory import Trajectory
    from ml_bench_solvers.agents.workspace import Agent


@dataclass(frozen=True)
class Plan:
    """What a command's options say of a run of agents."""

    agent: Agent
    tasks: TaskSet
    site: Site
    budget: Budget
    attempts: int
    max_total_cost: float | None
    out: Path
    agents_way: Way
    judges_way: Way
    command: str | None
    """The program that is the agent, where it is one."""

    @property
    def identity(self) -> dict[str, Any]:
        """Return what results must have in common to belong to one run, beside what the judge asks for."""
        site = self.site
        return {
            "agent": self.agent.name,
            **identity_of(self.agent),
            "command": self.command,
            "start": site.start,
            "network": site.network_mode if site.network == "full" else site.network,
            **({} if site.allowed is None else {"allowed": list(site.allowed.entries)}),
            "budget": self.budget.model_dump(mode="json"),
            "workspace": site.limits.model_dump(mode="json", exclude={"seconds"}),
            "changes": site.changes.model_dump(mode="json"),
            "variables": sorted(site.variables),
        }


def allowed_by(site: Site) -> tuple[str, ...]:
    """Return the hosts that agents may reach, as they were listed."""
    return () if site.allowed is None else site.allowed.entries


def work(plan: Plan, console: Console) -> tuple[list[Attempt], Purse, bool]:
    """Make the attempts that are not made yet; return all, what was spent, and whether somebody has ended it early.

    Raises:
        AgentError: the agent cannot work.
        SandboxError: no task has an image, or the engine gives agents no network.
        RunError: the folder of the run cannot be used.
    """
    from ml_bench_metric import judge
    from ml_bench_metric.evaluation import Stop
    from ml_bench_solvers.agents.attempts import used_by_all
    from ml_bench_solvers.agents.budget import Purse
    from ml_bench_solvers.agents.docker_workspace import require_network
    from ml_bench_solvers.agents.grading import candidates_of, read_attempts
    from ml_bench_solvers.agents.running import AgentRun, Manner, work_to_do

    way, tasks, out = plan.agents_way, plan.tasks, plan.out
    with open_place(way, console) as place:
        images = place.images(tasks.tasks, way)
        images.require_one()
        for reason in images.reasons:
            console.print(f"[yellow]not worked on:[/] {shown(reason)}", soft_wrap=True)
        found = candidates_of(out, tasks, read_attempts(out, tasks, plan.attempts))
        identity = {
            "kind": "agent",
            **plan.identity,
            **judge.identity(plan.judges_way.settings, tasks, images, "run.sh"),
        }
        about = judge.about(sys.argv, place.capacity, place.workers, tasks, found, 1)
        with open_folder(out, identity, about, way.restart, console) as folder:
            purse = Purse(plan.max_total_cost, used_by_all(out).cost)
            todo = work_to_do(out, tasks.tasks, plan.attempts, purse, retry_errors=way.retry_errors)
            total = plan.attempts * len(tasks.tasks)
            if len(todo) < total:
                console.print(
                    f"{total - len(todo)} of {total} attempts are in {shown(out)}; {len(todo)} to go", soft_wrap=True
                )
            stop = Stop()
            if todo:
                require_network(_client(place), plan.site, next(iter(images.by_task.values())).digest)
                manner = Manner(plan.site.start, plan.site.network, allowed_by(plan.site), plan.budget, images.digests)
                run = AgentRun(
                    plan.agent, out, _opener(place, images, plan.site), manner, purse, place.workers.slots, stop
                )
                with (
                    interrupts(stop, console),
                    connected(plan.agent),
                    AgentProgress(console, len(todo), visible=not way.quiet) as progress,
                ):
                    for attempt in run.go(todo):
                        progress.advance(attempt)
                if run.unable:
                    said = f"{len(run.unable)} attempts could not be made: {run.unable[-1][1]}"
                    console.print(f"[yellow]agent:[/] {shown(said)}; the same command makes them again", soft_wrap=True)
            ended = read_attempts(out, tasks, plan.attempts)
            _store_failed(folder, tasks, ended, plan.judges_way.settings)
        return ended, purse, stop.finish


def _client(place: Place) -> DockerClient:
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox

    assert isinstance(place.sandbox, DockerSandbox)
    return place.sandbox.client


def _opener(place: Place, images: Images, site: Site) -> Open:
    """Return what makes the workspace of an attempt."""
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
    from ml_bench_metric.sandbox.protocol import SandboxError
    from ml_bench_solvers.agents.docker_workspace import DockerWorkspace
    from ml_bench_solvers.agents.workspace import WorkspaceError

    sandbox = place.sandbox
    assert isinstance(sandbox, DockerSandbox)

    def open_one(task: Task, meter: Meter, steps: Trajectory, slot: Slot) -> DockerWorkspace:
        try:
            return DockerWorkspace(sandbox, task, images.of(task), site, meter, steps, slot)
        except SandboxError as error:
            raise WorkspaceError(str(error)) from error

    return open_one


def _store_failed(folder: RunFolder, tasks: TaskSet, ended: list[Attempt], settings: Settings) -> None:
    """Store the results of the attempts that the sandbox has failed, each once."""
    from ml_bench_solvers.agents.grading import failed_results

    known = {(result.task_id, result.candidate, result.candidate_sha256) for result in folder.results()}
    for result in failed_results(tasks, ended, settings):
        if (result.task_id, result.candidate, result.candidate_sha256) not in known:
            folder.append(result)


def judge_what_was_left(
    plan: Plan, ended: list[Attempt], rule: Literal["original", "strict"], console: Console
) -> Summary:
    """Judge what agents have left, and return the numbers.

    Raises:
        SandboxError: the engine does not answer any more.
        typer.Exit: somebody has ended it early.
    """
    from ml_bench_solvers.agents.grading import candidates_of

    way, tasks, out = plan.judges_way, plan.tasks, plan.out
    found = candidates_of(out, tasks, ended)
    if any(attempt.why == "environment_error" for attempt in ended):
        # There is nothing of theirs to execute: --retry-errors is for their attempts then.
        way = replace(way, retry_errors=False)
    with open_place(way, console) as place:
        images = place.images(tasks.tasks, way)
        with executed("agent", found, tasks, images, place, way, console, rule, more_identity=plan.identity) as judged:
            ks = (1, plan.attempts) if plan.attempts > 1 else (1,)
            summary = judged.judgement.summary(ks=ks, rule=rule, estimator="unbiased")
            summary = summary.model_copy(update={"checks_skipped": judged.checks_skipped})
            assert judged.judgement.folder is not None
            judged.judgement.folder.write_summary(summary)
    end_early(judged, out, console)
    return summary


def store_report(plan: Plan, summary: Summary, ended: list[Attempt], spent: float) -> AgentReport:
    """Store and return the numbers of the run.

    Raises:
        RunError: they cannot be written.
    """
    from ml_bench_metric.store import RunError
    from ml_bench_metric.whole_files import write_whole
    from ml_bench_solvers.agents.report import REPORT_FILE, agent_report

    report = agent_report(
        summary,
        ended,
        agent=plan.agent.name,
        start=plan.site.start,
        network=plan.site.network,
        spent=spent,
        allowed=allowed_by(plan.site),
    )
    try:
        write_whole(plan.out / REPORT_FILE, report.to_json(indent=2) + "\n")
    except OSError as error:
        raise RunError(f"{plan.out / REPORT_FILE} cannot be written: {error.strerror or error}") from error
    return report
