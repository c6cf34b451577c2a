"""Prompts for engines that answer in batches: OpenAI's batch files, and a parquet table for everything else."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ml_bench_metric.tasks import Task
from ml_bench_solvers.batch_ids import Places, custom_id
from ml_bench_solvers.prompt import Message, Prompt

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""Per file: what OpenAI takes. Its 200 MB are read as powers of ten, the smaller reading."""

CHAT = "/v1/chat/completions"
PROMPTS_SUFFIX = ".parquet"
REQUESTS_SUFFIX = ".jsonl"


class BatchError(ValueError):
    """Requests cannot be written, or answers cannot be read at all; the message says what to do."""


@dataclass(frozen=True)
class Sampling:
    """How answers are to be drawn. What is None is left out of the requests: the server's own value holds."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    """Of the first answer. Where answers are separate requests, each has the next seed: with one they were alike."""
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    """What an export wrote."""

    files: tuple[Path, ...]
    """In order."""
    requests: int
    """Of all files together; of a table its rows."""


def requests(
    prompts: Iterable[tuple[Task, Prompt]],
    model: str,
    answers: int,
    sampling: Sampling,
    *,
    together: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the requests of OpenAI's batch API, in the order of the prompts and of the answers.

    Args:
        prompts: what to ask.
        model: its name in the requests.
        answers: how many per prompt.
        sampling: how they are drawn.
        together: whether one request asks for all answers to a prompt (`n`), where a server can do that.
        extra: further fields of each body, which win over the others; one that is None takes a field away, so that
            `{"max_tokens": None, "max_completion_tokens": 1024}` renames one.

    Raises:
        BatchError: two prompts are for one task, whose answers could not be told apart.
    """
    seen: set[str] = set()
    for task, prompt in prompts:
        if task.task_id in seen:
            raise BatchError(
                f"there are two prompts for task {task.task_id}; export one setting at a time, to files of their own"
            )
        seen.add(task.task_id)
        for first in range(0, answers, answers if together else 1):
            places = Places(task.task_id, first, answers if together else 1)
            yield {
                "custom_id": custom_id(places),
                "method": "POST",
                "url": CHAT,
                "body": _body(model, prompt.messages, places, sampling, extra or {}),
            }


def _body(
    model: str, messages: Sequence[Message], places: Places, sampling: Sampling, extra: Mapping[str, Any]
) -> dict[str, Any]:
    body = {
        "model": model,
        "messages": list(messages),
        "n": places.count if places.count > 1 else None,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": None if sampling.seed is None else sampling.seed + places.first,
        "stop": list(sampling.stop) or None,
        **extra,
    }
    return {name: value for name, value in body.items() if value is not None}


def write_requests(
    found: Iterable[Mapping[str, Any]],
    out: Path,
    *,
    replace: bool = False,
    most_requests: int = MOST_REQUESTS,
    most_bytes: int = MOST_BYTES,
) -> Written:
    """Write requests as JSON lines, in several files where one would be too large: `out`, then `out` with `-2`, ….

    The files appear when all of them are whole; until then, and after an error, there is nothing new.

    Args:
        found: the requests.
        out: the first file.
        replace: whether files of an earlier export to the same place are replaced, all of them.
        most_requests: per file.
        most_bytes: per file.

    Raises:
        BatchError: there is an earlier export, a request alone is too large for a file, or a file cannot be written.
    """
    earlier = _parts(out)
    if earlier and not replace:
        raise BatchError(f"{earlier[0]} is there already; give another --out, or --replace")
    count = 0
    with _folder_beside(out) as folder, contextlib.ExitStack() as stack:
        files: list[Path] = []
        file: IO[bytes] | None = None
        lines = size = 0
        for request in found:
            # ASCII: no reader splits a line at an odd character of a prompt.
            line = json.dumps(request, ensure_ascii=True, allow_nan=False).encode() + b"\n"
            if len(line) > most_bytes:
                raise BatchError(
                    f"request {request['custom_id']} has {len(line):,} bytes, and a file {most_bytes:,} at the most; "
                    "give a smaller budget for the repository's text, or a larger --max-bytes"
                )
            if file is None or lines == most_requests or size + len(line) > most_bytes:
                files.append(folder / str(len(files) + 1))
                file = stack.enter_context(files[-1].open("wb"))
                lines = size = 0
            file.write(line)
            lines, size, count = lines + 1, size + len(line), count + 1
        stack.close()
        for path in earlier:
            path.unlink()
        placed = tuple(_part(out, number) for number in range(1, len(files) + 1))
        for path, place in zip(files, placed, strict=True):
            path.replace(place)
    return Written(placed, count)


def write_prompts(prompts: Iterable[tuple[Task, Prompt]], out: Path, *, replace: bool = False) -> Written:
    """Write prompts as a parquet table, a row each: what `vllm`, `datatrove` and `distilabel` read.

    Columns: `task_id`, `repository`, `type`, `setting`, `messages` (role and content), `text` (the contents alone, for
    models without a chat template), `template` and `digest` of the prompt.

    Raises:
        BatchError: the file is there already, or cannot be written.
    """
    import pyarrow as pa  # loading it takes a while, and only this needs it
    import pyarrow.parquet as pq

    if out.exists() and not replace:
        raise BatchError(f"{out} is there already; give another --out, or --replace")
    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    names = ("task_id", "repository", "type", "setting", "text", "template", "digest")
    schema = pa.schema([(name, pa.string()) for name in names]).insert(4, pa.field("messages", pa.list_(message)))
    rows = [_row(task, prompt) for task, prompt in prompts]
    with _folder_beside(out) as folder:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "1", compression="zstd")
        (folder / "1").replace(out)
    return Written((out,), len(rows))


def _row(task: Task, prompt: Prompt) -> dict[str, Any]:
    # Arrow has only text that UTF-8 can hold: lone surrogates become question marks.
    messages = [
        {"role": message["role"], "content": message["content"].encode("utf-8", "replace").decode("utf-8")}
        for message in prompt.messages
    ]
    return {
        "task_id": task.task_id,
        "repository": task.repository,
        "type": task.type,
        "setting": prompt.setting,
        "messages": messages,
        "text": "\n\n".join(message["content"] for message in messages),
        "template": prompt.template,
        "digest": prompt.digest,
    }


def _part(out: Path, number: int) -> Path:
    return out if number == 1 else out.with_name(f"{out.stem}-{number}{out.suffix}")


def _parts(out: Path) -> list[Path]:
    """Return the files of an export that are there, in order: a gap ends them."""
    found: list[Path] = []
    while (path := _part(out, len(found) + 1)).exists():
        found.append(path)
    return found


@contextlib.contextmanager
def _folder_beside(out: Path) -> Iterator[Path]:
    """Give a folder for files that are not whole yet, on the same disk; it is gone behind this.

    Raises:
        BatchError: nothing can be written there.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as name:
            yield Path(name)
    except OSError as error:
        raise BatchError(f"{out} cannot be written: {error.strerror or error}; give another --out") from error


def write_text(text: str, out: Path) -> None:
    """Write a file whole, or leave what was there.

    Raises:
        BatchError: it cannot be written.
    """
    with _folder_beside(out) as folder:
        (folder / "1").write_text(text, encoding="utf-8")
        (folder / "1").replace(out)
