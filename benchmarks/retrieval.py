"""What prompts cost, and `bm25s` beside `rank_bm25` on the same text in one run.

    python benchmarks/retrieval.py --tasks SOURCE --split full --repositories MIRRORS [--unit chunk] [--rounds 3]

First the prompts of all tasks in all four settings are made: `cold`, without anything in the cache (the repositories
are checked out, read and indexed), then `warm`, by makers that know nothing but the cache. Then, for each repository,
both packages get the same words of the same passages, and all of its tasks' instructions as queries; rounds alternate
between them. `rank_bm25` is asked for BM25+, the variant that setting `retrieval` goes by, and `same` is the share of
tasks for which both put the same passage first; `same as Okapi` is that share for its BM25Okapi, a variant with another
weight of common words, as information. Run nothing else beside it.

Without `rank_bm25` (`pip install rank_bm25`; nothing else needs it) only the prompts are measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ml_bench_metric.tasks import Task, load_tasks
from ml_bench_solvers.checkouts import RepositoryTexts
from ml_bench_solvers.digest_cache import DigestCache
from ml_bench_solvers.prompt import SETTINGS
from ml_bench_solvers.prompt_error import RepositoryError
from ml_bench_solvers.prompts import PromptMaker
from ml_bench_solvers.repository_text import RepositoryText
from ml_bench_solvers.retrieval import DELTA, K1, B, Passages, index_of, passage_spans, words

_DIGITS = 6
"""To how many digits scores are compared: what sums differ by behind them is their order."""


@dataclass(frozen=True)
class Comparison:
    """Both packages on one repository: medians over the rounds, in seconds."""

    repository: str
    tasks: int
    passages: int
    bm25s_index: float
    bm25s_queries: float
    rank_bm25_index: float
    rank_bm25_queries: float
    same: int
    """Tasks for which both put the same passage first."""
    same_as_okapi: int


def main() -> None:
    """Measure, and print tables or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="sample")
    parser.add_argument("--split", default="L")
    parser.add_argument("--repositories", type=Path)
    parser.add_argument("--unit", choices=("sentence", "chunk"), default="sentence")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tasks = load_tasks(options.tasks, options.split).tasks
    passages = Passages(options.unit)

    with tempfile.TemporaryDirectory(prefix="ml-bench-retrieval-") as name:
        seconds: dict[str, list[float]] = {"cold": [], "warm": []}
        for number in range(options.rounds):
            folder = Path(name) / str(number)
            for state, measured in seconds.items():
                took, count, missing = _make_all(tasks, options.repositories, passages, folder)
                measured.append(took)
                print(f"{state}: {count} prompts in {took:.2f} s", file=sys.stderr)
        for repository, reason in missing.items():
            print(f"left out: {repository}: {reason}", file=sys.stderr)
        texts = RepositoryTexts(options.repositories, cache=DigestCache("texts", Path(name) / "0"))
        of_repository: dict[str, list[Task]] = {}
        for task in tasks:
            if task.repository not in missing:
                of_repository.setdefault(task.repository, []).append(task)
        rows = [_compare(texts.text_of(own[0]), own, passages, options.rounds) for own in of_repository.values()]
    medians = {state: statistics.median(measured) for state, measured in seconds.items()}
    if options.json:
        print(json.dumps({"prompts": count, "seconds": medians, "comparison": [asdict(row) for row in rows if row]}))
        return
    print(f"{count} prompts: cold {medians['cold']:.2f} s, warm {medians['warm']:.2f} s")
    _print_table([row for row in rows if row])


def _make_all(
    tasks: Sequence[Task], mirrors: Path | None, passages: Passages, folder: Path
) -> tuple[float, int, dict[str, str]]:
    """Return the seconds that all prompts took, how many there are, and the repositories without, with the reason."""
    start = time.perf_counter()
    texts = RepositoryTexts(mirrors, cache=DigestCache("texts", folder))
    cache = DigestCache("indices", folder)
    makers = [PromptMaker(setting, texts, passages=passages, cache=cache) for setting in SETTINGS]
    count, missing = 0, {}
    for task in tasks:
        for maker in makers:
            try:
                maker.make(task)
            except RepositoryError as error:
                missing[task.repository] = str(error).partition("\n")[0]
            else:
                count += 1
    return time.perf_counter() - start, count, missing


def _compare(text: RepositoryText, tasks: Sequence[Task], passages: Passages, rounds: int) -> Comparison | None:
    """Return how both packages do on a text; None where `rank_bm25` is missing, or the text is empty."""
    try:
        import rank_bm25
    except ImportError:
        print("rank_bm25 is not installed (pip install rank_bm25): nothing is compared", file=sys.stderr)
        return None
    import bm25s

    corpus = [words(text.text[start:end]) for start, end in passage_spans(text, passages)]
    queries = [words(task.instruction) for task in tasks]
    if not corpus:
        return None

    def ours() -> Any:
        model = bm25s.BM25(k1=K1, b=B, delta=DELTA, method="bm25+", dtype="float64")
        model.index(corpus, show_progress=False)
        return model

    def ask_ours(model: Any) -> list[int]:
        return [_first(model.get_scores(query)) for query in queries]

    def ask_other(model: Any) -> list[int]:
        return [_first(model.get_scores(query)) for query in queries]

    measured: dict[str, list[tuple[float, float]]] = {"ours": [], "other": []}
    for _ in range(rounds):
        *took, first = _timed(ours, ask_ours)
        measured["ours"].append((took[0], took[1]))
        *took, other = _timed(lambda: rank_bm25.BM25Plus(corpus, k1=K1, b=B, delta=DELTA), ask_other)
        measured["other"].append((took[0], took[1]))
    okapi = ask_other(rank_bm25.BM25Okapi(corpus, k1=K1, b=B))
    index = index_of(text, passages)
    shown = [index.search(task.instruction)[0].place for task in tasks]
    if shown != first:
        raise AssertionError("the prompts' passages are not those that were measured")
    medians = {name: [statistics.median(part) for part in zip(*runs, strict=True)] for name, runs in measured.items()}
    return Comparison(
        repository=tasks[0].repository,
        tasks=len(tasks),
        passages=len(corpus),
        bm25s_index=medians["ours"][0],
        bm25s_queries=medians["ours"][1],
        rank_bm25_index=medians["other"][0],
        rank_bm25_queries=medians["other"][1],
        same=sum(a == b for a, b in zip(first, other, strict=True)),
        same_as_okapi=sum(a == b for a, b in zip(first, okapi, strict=True)),
    )


def _timed(make: Callable[[], Any], ask: Callable[[Any], list[int]]) -> tuple[float, float, list[int]]:
    start = time.perf_counter()
    model = make()
    between = time.perf_counter()
    found = ask(model)
    return between - start, time.perf_counter() - between, found


def _first(scores: Any) -> int:
    """Return the first of the best, as the prompts have it."""
    return int(scores.round(_DIGITS).argmax())


def _print_table(rows: Sequence[Comparison]) -> None:
    if not rows:
        return
    print(f"{'':26}  passages  bm25s: index  queries  rank_bm25: index  queries  same     same as Okapi")
    totals = Comparison("all", *(sum(getattr(row, name) for row in rows) for name in list(asdict(rows[0]))[1:]))
    for row in (*rows, totals):
        print(
            f"{row.repository:26}  {row.passages:8}  {row.bm25s_index:10.3f} s  {row.bm25s_queries:5.3f} s"
            f"  {row.rank_bm25_index:14.3f} s  {row.rank_bm25_queries:5.3f} s"
            f"  {row.same:3}/{row.tasks:<3}  {row.same_as_okapi:3}/{row.tasks}"
        )


if __name__ == "__main__":
    main()
