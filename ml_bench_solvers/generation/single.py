"""One question to a server, outside of any run: nothing is stored."""

from __future__ import annotations

import asyncio

from ml_bench_solvers.generation.answers import Sampling
from ml_bench_solvers.generation.client import ChatClient, Endpoint
from ml_bench_solvers.generation.errors import GenerationStopped, RequestFailed
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.prompt import Prompt

_SAMPLING = Sampling(temperature=0.0, max_tokens=500)


def ask_once(place: Endpoint, model: str, text: str) -> str:
    """Return a model's reply to one message, asked for once, without chance where the server can.

    Raises:
        GenerationStopped: there is none; the message says why.
    """
    prompt = Prompt("", "instruction", ({"role": "user", "content": text},), "", 0, False)
    try:
        return asyncio.run(_ask(place, model, Question(prompt, (0,), _SAMPLING)))
    except RequestFailed as failure:
        raise GenerationStopped(f"{model} was asked, and did not answer: {failure}") from failure


async def _ask(place: Endpoint, model: str, question: Question) -> str:
    async with ChatClient(place, model) as client:
        return (await client.send(question, stream=False)).choices[0].text
