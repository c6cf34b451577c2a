"""Prices are read from a file, and a file that is none is refused with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_bench_solvers.generation.answers import Usage
from ml_bench_solvers.generation.errors import GenerationError
from ml_bench_solvers.generation.prices import Price, read_price


@pytest.mark.parametrize("content", ["org/m: {input: 0.5, output: 2}", '{"org/m": {"input": 0.5, "output": 2}}'])
def test_yaml_and_json_are_read(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prices"
    path.write_text(content, encoding="utf-8")
    assert read_price(path, "org/m") == Price(input=0.5, output=2)


def test_prices_are_per_million_tokens() -> None:
    assert Price(input=0.5, output=2).of(Usage(prompt_tokens=2_000_000, completion_tokens=500_000)) == 2.0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "3",
        "- a",
        "m: 3",
        "m: {input: 1}",
        "m: {input: -1, output: 1}",
        "m: {input: .inf, output: 1}",
        "m: {input: 1, output: 1, cached: 1}",
        "{",
        "a: b: c",
        "\x00",
        "!!python/object:os.system {}",
        "other: {input: 1, output: 1}",
    ],
)
def test_what_is_no_price_of_the_model_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(GenerationError, match=r"prices\.yaml.*write `MODEL"):
        read_price(path, "m")


def test_no_file_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match="No such file"):
        read_price(tmp_path / "none.yaml", "m")
