"""Prompts as data: a parquet or JSONL file with the chat messages, for whoever generates answers elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from ml_bench_metric.printable import printable
from ml_bench_solvers.prompt import Prompt
from ml_bench_solvers.prompt_error import PromptError

COLUMNS = ("task_id", "setting", "messages", "template", "digest", "cut", "context_characters")

_ROWS = 100
"""Of a row group: what is held in memory at a time."""


def row_of(prompt: Prompt) -> dict[str, Any]:
    """Return a prompt's row, with `COLUMNS` in that order. `messages` is a list of `{"role": …, "content": …}`."""
    values = (
        *(prompt.task_id, prompt.setting, [dict(message) for message in prompt.messages], prompt.template),
        *(prompt.digest, prompt.cut, prompt.context_characters),
    )
    return dict(zip(COLUMNS, values, strict=True))


def write_table(prompts: Iterable[Prompt], path: Path) -> int:
    """Write prompts into a file, and return how many. It appears under its name when it is complete.

    Args:
        prompts: taken one after the other, so that they need not be in memory together.
        path: ends with `.parquet` or `.jsonl`. A file that is there is replaced, and its folder is made.

    Raises:
        PromptError: the name ends otherwise, the file cannot be written, or a prompt cannot be made.
    """
    writers = {".parquet": _write_parquet, ".jsonl": _write_jsonl}
    if path.suffix not in writers:
        raise PromptError(f"{printable(str(path))}: the name must end with .parquet or .jsonl")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        count = writers[path.suffix]((row_of(prompt) for prompt in prompts), draft)
        draft.replace(path)
    except OSError as error:
        raise PromptError(f"{printable(str(path))} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # its folder may be none
            draft.unlink()
    return count


def _write_jsonl(rows: Iterator[dict[str, Any]], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
    return count


def _write_parquet(rows: Iterator[dict[str, Any]], path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    message = pa.struct([("role", pa.string()), ("content", pa.string())])
    types = (pa.string(), pa.string(), pa.list_(message), pa.string(), pa.string(), pa.bool_(), pa.int64())
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while group := list(islice(rows, _ROWS)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count
