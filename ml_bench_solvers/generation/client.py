"""One request to a server that speaks OpenAI's chat completions, through `huggingface_hub`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import huggingface_hub
from huggingface_hub import AsyncInferenceClient, get_token
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled, TextGenerationError

from ml_bench_solvers.generation.errors import GenerationError, RequestFailed
from ml_bench_solvers.generation.pacing import read_retry_after
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.replies import Reply, StreamedReply, part, read_usage, whole_choices

_OLDEST_HUB = 1
"""Before, huggingface_hub's client was another one, with other errors."""

_NO_KEY = "no-key"

_HUB_HOSTS = ("huggingface.co", "hf.co", "huggingface.cloud", "hf.space")

_RETRYABLE = (408, 409, 425, 429)
"""Beside all from 500 upward."""

_TOO_LONG = re.compile(
    r"context.{0,20}(?:length|window|size)|(?:prompt|input|request|message)s?`?\W.{0,40}too (?:long|large|many)|"
    r"too many (?:input )?tokens|maximum.{0,30}tokens|input.{0,20}tokens.{0,40}(?:exceed|must be|<=)",
    re.IGNORECASE | re.DOTALL,
)

_NETWORK = ("httpx", "httpx2", "httpcore", "httpcore2", "h11", "h2", "anyio", "ssl", "socket")
"""Modules whose exceptions mean that a connection failed. Which there are hangs on huggingface_hub's version."""

_SHOWN_CHARACTERS = 500


@dataclass(frozen=True)
class Endpoint:
    """Where requests go. Made by `endpoint`."""

    base_url: str | None
    provider: str | None
    key: str | None
    """Secret: sent to the server, and nowhere else."""

    def __repr__(self) -> str:
        """Leave the key out."""
        return f"Endpoint({self.base_url or self.provider or 'auto'})"

    def hide_key(self, text: str) -> str:
        """Return a text without the key: servers repeat what they do not like."""
        return text.replace(self.key, "[key]") if self.key else text


def endpoint(base_url: str | None, provider: str | None, key_variable: str | None) -> Endpoint:
    """Return where requests go.

    Args:
        base_url: of an OpenAI-compatible server; None for Hugging Face's Inference Providers.
        provider: one of those; None lets Hugging Face choose. Not with `base_url`.
        key_variable: the environment variable that holds the key. By default Hugging Face's token, which is sent to
            hosts of Hugging Face alone.

    Raises:
        GenerationError: these do not fit together, a key is needed and missing, or huggingface_hub is too old.
    """
    if int(huggingface_hub.__version__.partition(".")[0]) < _OLDEST_HUB:
        raise GenerationError(
            f"asking servers needs huggingface_hub {_OLDEST_HUB}.0 or newer; this is {huggingface_hub.__version__}: "
            f"pip install 'huggingface_hub>={_OLDEST_HUB}'"
        )
    if base_url is not None:
        if provider is not None:
            raise GenerationError("--base-url and --provider name two places; give one of them")
        _check_url(base_url)
    key = None
    if key_variable is not None:
        key = os.environ.get(key_variable, "").strip()
        if not key:
            raise GenerationError(f"the environment variable {key_variable} is not set; it is to hold the API key")
        if not key.isascii() or not key.isprintable():
            raise GenerationError(f"the environment variable {key_variable} holds what can be no API key")
    elif base_url is None or _is_of_the_hub(base_url):
        key = get_token()
        if key is None and base_url is None:
            raise GenerationError(
                "Inference Providers need a token: set HF_TOKEN, or name the variable that holds a key with "
                "--api-key-env; --base-url URL asks a server of your own"
            )
    return Endpoint(base_url, provider, key)


def _check_url(url: str) -> None:
    try:
        found = urlsplit(url)
        valid = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise GenerationError(f"--base-url {url!r} is no URL; write for example http://localhost:8000/v1")
    if found.username or found.password or found.query or found.fragment:
        raise GenerationError(
            "--base-url has more than host and path, which would be stored with the run; give a key with --api-key-env"
        )


def _is_of_the_hub(url: str) -> bool:
    found = urlsplit(url)
    host = found.hostname or ""
    return found.scheme == "https" and any(host == name or host.endswith("." + name) for name in _HUB_HOSTS)


class _Client(AsyncInferenceClient):
    async def _get_async_client(self) -> Any:
        client = await super()._get_async_client()  # type: ignore[no-untyped-call]
        # HF_HUB_OFFLINE is about the Hub. A model server of one's own answers on machines without a network, too.
        if self.model is not None:
            client.event_hooks = {}
        return client


class ChatClient:
    """Sends requests to a server. It holds connections: use it as a context manager."""

    def __init__(self, place: Endpoint, model: str, *, stream: bool = False, deadline: float = 600.0) -> None:
        """Send nothing yet.

        Args:
            place: where to.
            model: the name that the server knows it by.
            stream: whether answers are to come in pieces, which keeps impatient proxies from ending long ones.
            deadline: seconds that a request may take in all.
        """
        self._place = place
        self._model = model
        self._deadline = deadline
        self._shared = self._new_client()
        self.streams = stream

    async def __aenter__(self) -> ChatClient:
        """Return self."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """End all connections."""
        await self._shared.close()  # type: ignore[no-untyped-call]

    async def send(self, question: Question, *, stream: bool, counts: bool = True) -> Reply:
        """Return what a server answers to one request.

        Args:
            question: what is asked.
            stream: whether the answer is to come in pieces.
            counts: whether to ask for the tokens of a stream, which not every server understands.

        Raises:
            RequestFailed: it brought no answer.
        """
        begun = time.monotonic()
        try:
            reply = await asyncio.wait_for(
                self._streamed(question, begun, counts) if stream else self._whole(question, begun), self._deadline
            )
        except asyncio.TimeoutError as error:
            raise RequestFailed(f"no whole answer within {self._deadline:g} s", label="timeout") from error
        if not reply.choices:
            raise RequestFailed(
                "the server sent no whole answer" + (": its stream ended early" if stream else ""),
                label="incomplete" if stream else "no choices",
                usage=reply.usage,
            )
        return reply

    async def _whole(self, question: Question, begun: float) -> Reply:
        async with _failures(self._place):
            found = await self._shared.chat_completion(**self._fields(question), stream=False)
        _raise_told(part(found, "error"), self._place)
        return Reply(
            choices=whole_choices(found.choices)[: len(question.indices)],
            usage=read_usage(found.usage),
            model=_name(found.model),
            request_id=_name(found.id),
            seconds=time.monotonic() - begun,
        )

    async def _streamed(self, question: Question, begun: float, counts: bool) -> Reply:
        wanted = len(question.indices)
        growing = StreamedReply()
        options: dict[str, Any] = {"stream_options": {"include_usage": True}} if counts else {}
        # A client for each: huggingface_hub keeps the response of every stream as long as its client.
        async with self._new_client() as client:
            try:
                async with _failures(self._place):
                    chunks = await client.chat_completion(**self._fields(question), **options, stream=True)
                    async for chunk in cast("AsyncIterable[object]", chunks):
                        _raise_told(part(chunk, "error"), self._place)
                        growing.add(chunk)
            except RequestFailed:
                # What has come to its end is paid for and whole, whatever happened to the rest.
                if not growing.choices:
                    raise
        return Reply(
            choices=growing.choices[:wanted],
            usage=growing.usage,
            model=growing.model,
            request_id=growing.request_id,
            seconds=time.monotonic() - begun,
        )

    def _fields(self, question: Question) -> dict[str, Any]:
        sampling = question.sampling
        return {
            "messages": [dict(message) for message in (*question.prompt.messages, *question.history)],
            "model": self._model,
            "n": len(question.indices) if len(question.indices) > 1 else None,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": question.seed,
            "stop": list(sampling.stop) or None,
            "tools": list(question.tools) or None,
            "extra_body": sampling.extra or None,
        }

    def _new_client(self) -> _Client:
        if self._place.base_url is None:
            return _Client(provider=cast("Any", self._place.provider), token=self._place.key)
        # Without any key huggingface_hub would send the user's token to whatever server that is.
        return _Client(base_url=self._place.base_url, token=self._place.key or _NO_KEY)


def _name(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() else ""


@asynccontextmanager
async def _failures(place: Endpoint) -> AsyncIterator[None]:
    """Turn whatever huggingface_hub and the libraries below it raise into `RequestFailed`."""
    try:
        yield
    except HfHubHTTPError as error:
        raise await _refused(error, place) from error
    except TextGenerationError as error:
        # An error in place of the next piece of a stream.
        raise _told(error.args[0] if error.args else "", place) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RequestFailed(f"the server sent what is no JSON: {error}", label="broken") from error
    except UnicodeEncodeError as error:
        raise RequestFailed(
            f"the prompt cannot be sent: {error.reason}", label="unsendable", retryable=False
        ) from error
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        # From a server that is asked directly, it is JSON of another shape; else perhaps a provider without the model.
        retryable = place.base_url is not None
        raise RequestFailed(_shortened(place.hide_key(str(error))), label="broken", retryable=retryable) from error
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _NETWORK:
            raise
        reason = _shortened(place.hide_key(str(error) or type(error).__name__))
        retryable = not isinstance(error, OfflineModeIsEnabled)
        raise RequestFailed(f"the connection failed: {reason}", label="disconnected", retryable=retryable) from error


async def _refused(error: HfHubHTTPError, place: Endpoint) -> RequestFailed:
    response = error.response
    status = response.status_code
    try:
        await response.aread()  # a stream's is not read yet
        body = response.text
    except Exception:
        body = ""
    message = _shortened(place.hide_key(_message_in(body) or response.reason_phrase or "no reason given"))
    return RequestFailed(
        f"HTTP {status}: {message}",
        label=str(status),
        status=status,
        retryable=status in _RETRYABLE or status >= 500,
        retry_after=read_retry_after(response.headers),
        too_long=status in (400, 413, 422) and (status == 413 or _TOO_LONG.search(body) is not None),
    )


def _message_in(body: str) -> str:
    """Return what a server says is wrong, of the forms in which servers do."""
    try:
        found = json.loads(body)
    except ValueError:
        return body
    for holder in (part(found, "error"), found):
        for name in ("message", "detail", "error"):
            value = part(holder, name)
            if isinstance(value, str) and value:
                return value
    told = part(found, "error")
    return told if isinstance(told, str) else body


def _raise_told(error: object, place: Endpoint) -> None:
    """Raise the error that a server tells of with status 200."""
    if error is not None:
        raise _told(error, place)


def _told(error: object, place: Endpoint) -> RequestFailed:
    message = part(error, "message") if isinstance(error, dict) else error
    code = part(error, "code")
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    text = message if isinstance(message, str) and message else "no reason given"
    return RequestFailed(
        f"the server reports: {_shortened(place.hide_key(text))}",
        label=str(status or "reported"),
        status=status,
        retryable=status is None or status in _RETRYABLE or status >= 500,
        too_long=_TOO_LONG.search(text) is not None,
    )


def _shortened(text: str) -> str:
    text = " ".join(text.encode("utf-8", "replace").decode().split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
