"""A cut text fits its budget, is the longest that does, and ends between visible characters."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_solvers.cutting import CharacterBudget, TokenBudget, parse_budget, whole_character
from ml_bench_solvers.prompt_error import PromptError

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG = "\U0001f1e9\U0001f1ea"
WAVE = "\U0001f44b\U0001f3fd"


@pytest.mark.parametrize(
    "visible", ["e\u0301", FAMILY, FLAG, WAVE, "\u2764\ufe0f", "\u0915\u093f", "\u1112\u1161\u11ab"]
)
def test_a_visible_character_of_several_is_kept_whole_or_not_at_all(visible: str) -> None:
    text = f"abc{visible}xyz"
    for limit in range(1, len(text) + 1):
        cut = CharacterBudget(limit).cut(text)
        assert len(cut) <= limit
        assert text.startswith(cut)
        assert (visible in cut) == (limit >= 3 + len(visible))
        assert len(cut) in (limit, 3)


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_a_cut_is_a_beginning_that_fits_and_what_fits_is_not_cut(text: str, limit: int) -> None:
    cut = CharacterBudget(limit).cut(text)
    assert text.startswith(cut)
    assert len(cut) <= limit
    assert (cut == text) == (len(text) <= limit)


@given(st.text(alphabet="abc \n", min_size=60, max_size=100), st.integers(min_value=1, max_value=50))
def test_plain_text_is_cut_exactly_at_the_budget(text: str, limit: int) -> None:
    assert len(CharacterBudget(limit).cut(text)) == limit


def test_an_endless_pile_of_marks_is_cut_all_the_same() -> None:
    assert whole_character("a" + "\u0301" * 1000, 500) == 500


@pytest.mark.parametrize(
    ("text", "characters"), [("100k", 100_000), ("400K", 400_000), ("1234", 1234), (" 250_000 ", 250_000)]
)
def test_budgets_have_names_or_are_numbers(text: str, characters: int) -> None:
    assert parse_budget(text) == CharacterBudget(characters)


@pytest.mark.parametrize("text", ["", "0", "-5", "200k", "1e5", "many", "²"])
def test_other_budgets_are_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(PromptError, match="write 100k, 400k, or a number"):
        parse_budget(text)


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer of 300 tokens, with which most characters beyond ASCII have several tokens."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["the model trains the network with the data"] * 10, trainer)
    tokenizer.enable_truncation(5)  # as published files often have it; a budget must not be cut by that
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(file))
    return file


@pytest.mark.parametrize("text", ["the model trains " * 50, "größer 漢字 \U0001f600" * 50, "e\u0301" * 200, "x" * 500])
@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 50, 99])
def test_a_budget_of_tokens_is_kept_to_and_used(tokenizer_file: Path, text: str, tokens: int) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    budget = parse_budget(str(tokens), str(tokenizer_file))
    cut = budget.cut(text)
    used = len(tokenizer.encode(cut).ids)
    assert text.startswith(cut)
    assert "\ufffd" not in tokenizer.decode(tokenizer.encode(cut).ids)
    assert tokens - 6 <= used <= tokens
    assert budget.cut(cut) == cut


def test_a_folder_with_a_tokenizer_serves_too_and_short_texts_stay_whole(tokenizer_file: Path) -> None:
    assert TokenBudget(1000, str(tokenizer_file.parent)).cut("the model") == "the model"


def test_a_tokenizer_that_cannot_be_had_is_an_error_of_one_line(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    broken = tmp_path / "tokenizer.json"
    broken.write_text(json.dumps({"version": "none"}))
    with pytest.raises(PromptError, match=r"tokenizer .* cannot be loaded: [^\n]*$"):
        parse_budget("100k", str(broken))


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(PromptError, match=r'pip install "ml-bench\[tokenizers\]"'):
        parse_budget("100k", "tokenizer.json")
