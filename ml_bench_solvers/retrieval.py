"""Finding the passage of a repository's text that fits an instruction: BM25 over windows of sentences, or chunks.

The variant is BM25+ (k1 = 1.5, b = 0.75, delta = 1), in which no word counts against a passage, however common it is.
Words are runs of letters and digits in lower case, so `train_batch.py` is three. Equal scores go to the passage that
comes first.
"""

from __future__ import annotations

import io
import re
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ml_bench_solvers.chunks import chunks
from ml_bench_solvers.digest_cache import DigestCache
from ml_bench_solvers.prompt_error import PromptError
from ml_bench_solvers.repository_text import RepositoryText
from ml_bench_solvers.sentences import Span, sentences

if TYPE_CHECKING:
    import numpy as np

Unit = Literal["sentence", "chunk"]

INDEX_VERSION = 1
"""To be raised when the same text has to give another index."""

K1, B, DELTA = 1.5, 0.75, 1.0

_WORD = re.compile(r"[^\W_]+")
_DIGITS = 6
"""To how many digits behind the point scores count, so that the order in which they are summed up does not."""
_DEFAULTS: dict[Unit, tuple[int, int]] = {"sentence": (10, 1_000), "chunk": (1, 20_000)}


@dataclass(frozen=True)
class Passages:
    """What a repository's text is cut into for the search."""

    unit: Unit = "sentence"
    window: int | None = None
    """Units of a passage; None: 10 sentences, 1 chunk."""
    stride: int = 1
    """Units from the beginning of one passage to that of the next."""
    limit: int | None = None
    """So many units of the text count, from its beginning; None: 1,000 sentences, 20,000 chunks."""

    def __post_init__(self) -> None:
        if min(self.size, self.stride, self.units) < 1:
            raise PromptError("window, stride and limit of a search start at 1")

    @property
    def size(self) -> int:
        """Units of a passage."""
        return self.window if self.window is not None else _DEFAULTS[self.unit][0]

    @property
    def units(self) -> int:
        """How many units of the text count."""
        return self.limit if self.limit is not None else _DEFAULTS[self.unit][1]

    def key(self) -> tuple[object, ...]:
        """Return what tells its passages of a text from others."""
        return self.unit, self.size, self.stride, self.units


@dataclass(frozen=True)
class Found:
    """A passage, and how well it fits."""

    path: str
    """Of the file in which it begins."""
    place: int
    """Which passage of the text it is, from 0."""
    score: float
    """0 where it has no word of the query; comparable within one text and query only."""
    text: str


class Index:
    """The passages of one text, ready to be searched."""

    def __init__(self, text: RepositoryText, spans: list[Span], model: Any) -> None:
        """Use `index_of` to get one."""
        self._text = text.text[: max((end for _, end in spans), default=0)]
        self._paths = [text.path_at(start) for start, _ in spans]
        self.spans = spans
        self._model = model

    def scores(self, query: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the passages' scores, in their order."""
        import numpy as np

        wanted = words(query)
        if self._model is None or not wanted:
            return np.zeros(len(self.spans))
        known = [word for word in wanted if word in self._model.vocab_dict]
        scores = np.asarray(self._model.get_scores(known), dtype=np.float64) if known else np.zeros(len(self.spans))
        # What BM25+ gives for a word that is missing is the same for all passages: without it, 0 means nothing.
        missing = self._model.nonoccurrence_array
        if known and missing is not None:
            scores = scores - missing[self._model.get_tokens_ids(known)].sum()
        return np.abs(np.round(scores, _DIGITS))

    def search(self, query: str, count: int = 1) -> list[Found]:
        """Return the passages that fit best, the best first; where none fits at all, the first of the text."""
        import numpy as np

        scores = self.scores(query)
        best = np.argsort(-scores, kind="stable")[:count]
        return [Found(self._paths[place], int(place), float(scores[place]), self.passage(int(place))) for place in best]

    def passage(self, place: int) -> str:
        """Return the text of a passage; where it goes over into another file, with the line that names that."""
        start, end = self.spans[place]
        return self._text[start:end]


def words(text: str) -> list[str]:
    """Return the words that the search goes by."""
    return _WORD.findall(text.lower())


def index_of(text: RepositoryText, passages: Passages, cache: DigestCache | None = None) -> Index:
    """Return the index of a text's passages, made now or taken from the cache.

    Raises:
        PromptError: package `bm25s` is missing; the message says how to get it.
    """
    try:
        import bm25s
    except ImportError as error:
        raise PromptError('setting retrieval needs `pip install "ml-bench[retrieval]"`') from error
    key = (INDEX_VERSION, bm25s.__version__, text.digest, *passages.key())
    if cache and (data := cache.get(*key)) is not None and (stored := _unpacked(data)):
        return Index(text, *stored)
    spans = list(passage_spans(text, passages))
    model = None
    if spans:
        model = bm25s.BM25(k1=K1, b=B, delta=DELTA, method="bm25+", dtype="float64")
        model.index([words(text.text[start:end]) for start, end in spans], show_progress=False)
    if cache:
        cache.put(_packed(spans, model), *key)
    return Index(text, spans, model)


def passage_spans(text: RepositoryText, passages: Passages) -> Iterator[Span]:
    """Yield the spans of a text's passages, in order.

    The last ends with the last unit that counts; a text with fewer units than a passage has is one passage.
    """
    units = list(islice(_units(text, passages.unit), passages.units))
    last = max(len(units) - passages.size, 0)
    for first in (*range(0, last, passages.stride), *([last] if units else [])):
        yield units[first][0], units[min(first + passages.size, len(units)) - 1][1]


def _units(text: RepositoryText, unit: Unit) -> Iterator[Span]:
    divide = sentences if unit == "sentence" else chunks
    for section in text.sections():
        for start, end in divide(section.path, text.text[section.start : section.end]):
            yield section.start + start, section.start + end


def _packed(spans: list[Span], model: Any) -> bytes:
    """Return spans and model as a zip archive of the files that `bm25s` writes."""
    import numpy as np

    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="ml-bench-index-") as name, zipfile.ZipFile(buffer, "w") as archive:
        folder = Path(name)
        np.save(folder / "spans.npy", np.array(spans, dtype=np.int64).reshape(-1, 2))
        if model is not None:
            model.save(folder / "model", show_progress=False)
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
    return buffer.getvalue()


def _unpacked(data: bytes) -> tuple[list[Span], Any] | None:
    """Return what `_packed` was given; None where this version of `bm25s` cannot read it."""
    import bm25s
    import numpy as np

    try:
        with tempfile.TemporaryDirectory(prefix="ml-bench-index-") as name:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                archive.extractall(name)
            folder = Path(name)
            spans = [(int(start), int(end)) for start, end in np.load(folder / "spans.npy")]
            model = bm25s.BM25.load(folder / "model", show_progress=False) if spans else None
        return spans, model
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        return None
