"""The passage that fits is found, always the same one, however the index came about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ml_bench_solvers.digest_cache import DigestCache
from ml_bench_solvers.prompt_error import PromptError
from ml_bench_solvers.repository_text import RepositoryText
from ml_bench_solvers.retrieval import Index, Passages, index_of, passage_spans
from ml_bench_solvers.text_files import TextFile

pytest.importorskip("bm25s")


def numbered(count: int, path: str = "README.md") -> RepositoryText:
    return RepositoryText((TextFile(path, " ".join(f"Sentence number{number} says so." for number in range(count))),))


TEXT = RepositoryText(
    (
        TextFile("README.md", "Train the model. Use train.py now.\n\nEvaluate it. Use evaluate.py with a checkpoint."),
        TextFile("sample.py", "def sample():\n    draw pictures of cats\n"),
    )
)


def passages(text: RepositoryText, **facts: object) -> list[str]:
    return [text.text[start:end] for start, end in passage_spans(text, Passages(**facts))]  # type: ignore[arg-type]


def test_windows_have_ten_sentences_one_further_each_time() -> None:
    found = passages(numbered(12))
    assert [part.count("says") for part in found] == [10, 10, 10]
    assert ["number0" in part for part in found] == [True, False, False]
    assert found[2].endswith("Sentence number11 says so.")


def test_only_the_first_thousand_sentences_count() -> None:
    found = passages(numbered(1200))
    assert len(found) == 991
    assert "number999" in found[-1]
    assert "number1000" not in found[-1]


@pytest.mark.parametrize(
    ("count", "facts", "firsts"),
    [
        (12, {"window": 5, "stride": 5}, [0, 5, 7]),
        (10, {"window": 5, "stride": 5}, [0, 5]),
        (12, {"window": 20}, [0]),
        (12, {"window": 2, "stride": 100}, [0, 10]),
        (12, {"window": 1, "limit": 3}, [0, 1, 2]),
        (0, {}, []),
    ],
)
def test_window_stride_and_limit_can_be_set_and_the_end_is_always_covered(
    count: int, facts: dict[str, int], firsts: list[int]
) -> None:
    assert [int(part.split("number")[1].split()[0]) for part in passages(numbered(count), **facts)] == firsts


@pytest.mark.parametrize("facts", [{"window": 0}, {"stride": 0}, {"limit": 0}])
def test_sizes_below_one_are_refused(facts: dict[str, int]) -> None:
    with pytest.raises(PromptError, match="start at 1"):
        Passages(**facts)  # type: ignore[arg-type]


def test_the_passage_with_the_words_of_the_query_is_found_and_says_where_it_is() -> None:
    index = index_of(TEXT, Passages(window=2))
    best, *others = index.search("How do I EVALUATE a checkpoint?", 10)
    assert best.text == "Evaluate it. Use evaluate.py with a checkpoint."
    assert (best.path, best.place) == ("README.md", 2)
    assert best.score > max(other.score for other in others)
    assert "\n\n===== sample.py =====\ndef sample" in index.passage(3)
    assert index.search("pictures cats draw sample")[0].path == "sample.py"


def test_chunks_can_be_searched_in_place_of_sentences() -> None:
    (best,) = index_of(TEXT, Passages("chunk")).search("cats")
    assert (best.path, best.text) == ("sample.py", "def sample():\n    draw pictures of cats")


@pytest.mark.parametrize("query", ["", "   ", "?!", "zebra", "\ud800", "___"])
def test_where_nothing_fits_the_first_passage_has_score_nought(query: str) -> None:
    (best,) = index_of(TEXT, Passages(window=1)).search(query)
    assert (best.place, best.score) == (0, 0.0)


def test_a_passage_without_any_word_of_the_query_has_score_nought() -> None:
    scores = index_of(TEXT, Passages(window=1)).scores("cats zebra")
    assert [score > 0 for score in scores] == [*([False] * (len(scores) - 1)), True]


def test_equal_passages_are_found_in_their_order() -> None:
    text = RepositoryText((TextFile("README.md", "Same words here.\n\n" * 30),))
    assert [found.place for found in index_of(text, Passages(window=1)).search("same words", 30)] == list(range(30))


@pytest.mark.parametrize("text", [RepositoryText(()), RepositoryText((TextFile("a.md", "---"),))])
def test_without_text_nothing_is_found(text: RepositoryText, tmp_path: Path) -> None:
    for _ in range(2):
        assert index_of(text, Passages(), DigestCache("indices", tmp_path)).search("anything") == []


def test_an_index_from_the_cache_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DigestCache("indices", tmp_path)
    text = numbered(200)
    made = index_of(text, Passages(), cache)
    monkeypatch.setattr("ml_bench_solvers.retrieval.passage_spans", None)  # it is not made again
    stored = index_of(text, Passages(), cache)
    for query in ("number7 says", "number150", "nothing"):
        assert stored.search(query, 5) == made.search(query, 5)


def test_other_texts_and_other_windows_have_other_entries(tmp_path: Path) -> None:
    cache = DigestCache("indices", tmp_path)
    for text in (numbered(20), numbered(21)):
        for passages_ in (Passages(), Passages(window=3), Passages(stride=2), Passages(limit=15), Passages("chunk")):
            assert index_of(text, passages_, cache).spans == list(passage_spans(text, passages_))
    assert len(list(cache.folder.iterdir())) == 10


@pytest.mark.parametrize("damage", [b"", b"nothing of the kind", None])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: bytes | None) -> None:
    cache = DigestCache("indices", tmp_path)
    made = index_of(numbered(30), Passages(), cache)
    (file,) = cache.folder.iterdir()
    whole = file.read_bytes()
    if damage is None:
        file.write_bytes(whole[:-100])
    else:
        cache.put(damage, *entry_key(numbered(30)))  # whole, but of another version
    assert index_of(numbered(30), Passages(), cache).search("number7") == made.search("number7")
    assert DigestCache("indices", tmp_path).get(*entry_key(numbered(30))) not in (None, damage)


def entry_key(text: RepositoryText) -> tuple[object, ...]:
    import bm25s

    from ml_bench_solvers.retrieval import INDEX_VERSION

    return (INDEX_VERSION, bm25s.__version__, text.digest, *Passages().key())


def test_scores_do_not_depend_on_the_hash_seed_of_the_process() -> None:
    program = (
        "from tests.test_solvers_retrieval import numbered\n"
        "from ml_bench_solvers.retrieval import Passages, index_of\n"
        "print(index_of(numbered(300), Passages()).search('a number7 says number8 so number250 sentence', 5))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def test_scores_are_those_of_bm25_plus() -> None:
    rank_bm25 = pytest.importorskip("rank_bm25", reason="rank_bm25 is not installed: NOT compared with it")
    from ml_bench_solvers.retrieval import words

    text = numbered(60)
    index: Index = index_of(text, Passages())
    other = rank_bm25.BM25Plus([words(index.passage(place)) for place in range(len(index.spans))])
    for query in ("number7 says so", "Sentence number8 and number30 say number30", "number59"):
        expected = other.get_scores(words(query))
        assert int(expected.argmax()) == index.search(query)[0].place
        differences = (expected - expected.min()) - (index.scores(query) - index.scores(query).min())
        assert abs(differences).max() < 1e-5


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(PromptError, match=r'pip install "ml-bench\[retrieval\]"'):
        index_of(TEXT, Passages())
