"""The options of `ml-bench agent` that are about the model of `--agent react`, and the agent that they make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ml_bench_cli.sampling import read_sampling

if TYPE_CHECKING:
    from ml_bench_solvers.agents.react import Conduct, ReactAgent
    from ml_bench_solvers.agents.workspace import Agent

ModelName = Annotated[
    str | None, typer.Option("--model", help="The model of react, by the name that its server or the Hub knows.")
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", help="OpenAI-compatible server of --model, for example http://localhost:8000/v1."),
]
Provider = Annotated[
    str | None, typer.Option("--provider", help="One of Hugging Face's Inference Providers; by default it chooses.")
]
KeyVariable = Annotated[
    str | None,
    typer.Option(
        "--api-key-env",
        metavar="NAME",
        help="Environment variable with the API key. By default Hugging Face's token, and no key for other hosts.",
    ),
]
ProtocolOption = Annotated[
    Literal["auto", "tools", "text"],
    typer.Option("--protocol", help="How the model acts: by calls of tools, by blocks of text, or as it can."),
]
Temperature = Annotated[float, typer.Option("--temperature", min=0, help="Of the model's replies.")]
TopP = Annotated[float, typer.Option("--top-p", help="Of the model's replies; above 0, up to 1.")]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", min=0, help="Tokens of a reply; 0: as many as the server lets it have.")
]
Seed = Annotated[int | None, typer.Option("--seed", help="Of every reply.")]
Extra = Annotated[str, typer.Option("--extra", metavar="JSON", help="Further fields of the requests.")]
Characters = Annotated[
    int, typer.Option("--context", min=2000, help="Characters of the conversation that the model is shown.")
]
Tokens = Annotated[
    int | None,
    typer.Option("--context-tokens", min=500, help="Tokens of it, reckoned by what the server counts."),
]
AgentTemplate = Annotated[
    Path | None,
    typer.Option("--template", metavar="FOLDER", exists=True, help="Other wording: system.jinja and user.jinja."),
]
Streams = Annotated[bool, typer.Option("--stream", help="Let the model's replies come in pieces.")]
RequestTimeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds that a request may take in all.")]
PerMinute = Annotated[
    float | None, typer.Option("--requests-per-minute", min=0.01, help="Requests a minute at the most, of all agents.")
]
Prices = Annotated[
    Path | None,
    typer.Option("--prices", help="YAML or JSON file `{MODEL: {input: …, output: …}}`, per million tokens."),
]


@dataclass(frozen=True)
class ModelWay:
    """What the options say."""

    model: str | None
    base_url: str | None
    provider: str | None
    key_variable: str | None
    temperature: float
    top_p: float
    max_tokens: int
    seed: int | None
    extra: str
    template: Path | None
    stream: bool
    timeout: float
    per_minute: float | None
    prices: Path | None

    def agent(self, out: Path, conduct: Conduct, *, limits_cost: bool) -> ReactAgent:
        """Return the agent; nothing is asked yet.

        Args:
            out: folder of the run; the log of requests goes there.
            conduct: how it goes about its work.
            limits_cost: whether money is limited, for which prices must be known.

        Raises:
            typer.BadParameter: an option is missing, or out of its range.
            GenerationError: there is no such place to ask at, or no price.
            PromptError: the templates cannot be read.
        """
        from ml_bench_solvers.agents.model import Model
        from ml_bench_solvers.agents.react import ReactAgent
        from ml_bench_solvers.generation.client import endpoint
        from ml_bench_solvers.generation.prices import read_price
        from ml_bench_solvers.generation.request_log import RequestLog
        from ml_bench_solvers.generation.run import Manner
        from ml_bench_solvers.templates import read_template

        if self.model is None or not self.model.strip() or not self.model.isprintable():
            raise typer.BadParameter("--agent react needs --model NAME")
        if limits_cost and self.prices is None:
            raise typer.BadParameter("--max-cost and --max-total-cost need --prices")
        sampling = read_sampling(self.temperature, self.top_p, self.max_tokens, self.seed, [], self.extra)
        place = endpoint(self.base_url, self.provider, self.key_variable)
        manner = Manner(stream=self.stream, deadline=self.timeout, per_minute=self.per_minute)
        price = read_price(self.prices, self.model) if self.prices else None
        model = Model(place, self.model, lambda: RequestLog.open(out), manner, price)
        return ReactAgent(model, sampling, conduct, read_template(self.template) if self.template else None)


@contextmanager
def connected(agent: Agent) -> Iterator[None]:
    """Hold the connections of an agent that asks a model, while its run lasts.

    Raises:
        RunError: the log of requests cannot be written.
    """
    from ml_bench_metric.store import RunError
    from ml_bench_solvers.agents.react import ReactAgent

    if not isinstance(agent, ReactAgent):
        yield
        return
    try:
        model = agent.model.__enter__()
    except OSError as error:
        raise RunError(
            f"the log of requests cannot be written: {error.strerror or error}; give another --out"
        ) from error
    try:
        yield
    finally:
        model.__exit__()


def identity_of(agent: Agent) -> dict[str, Any]:
    """Return what decides on an agent's work, beside its name."""
    from ml_bench_solvers.agents.react import ReactAgent

    return {"react": agent.identity} if isinstance(agent, ReactAgent) else {}
