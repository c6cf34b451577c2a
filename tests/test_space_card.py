"""The Space's metric card: its front matter is what the Hub reads, and its examples give the output that they show."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from ml_bench_metric import compute
from ml_bench_metric.checks import Rule
from ml_bench_metric.pass_at_k import Estimator

ROOT = Path(__file__).parents[1]
SPACE = ROOT / "ml_bench_metric"
CARD = (SPACE / "README.md").read_text("utf-8")
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


def examples() -> list[Any]:
    """Return (title, text) of each example; those that execute candidates carry the mark `docker`."""
    found = []
    for section in CARD.split("\n### ")[1:]:
        title, _, text = section.partition("\n")
        for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            marks = [pytest.mark.docker] if ".compute(" in block else []
            found.append(pytest.param(title, block, marks=marks, id=title))
    return found


def front_matter() -> dict[str, Any]:
    match = re.match(r"---\n(.*?)\n---\n", CARD, re.DOTALL)
    assert match is not None
    found: dict[str, Any] = yaml.safe_load(match[1])
    return found


def test_front_matter_makes_it_a_static_space_that_is_listed_as_a_metric() -> None:
    found = front_matter()
    assert found["sdk"] == "static" and "sdk_version" not in found
    assert (SPACE / found["app_file"]).is_file()
    assert {"evaluate", "metric"} <= set(found["tags"])
    assert {found["colorFrom"], found["colorTo"]} <= COLOURS
    assert len(found["emoji"]) <= 2 and found["title"] and found["license"] == "mit"
    assert len(found["short_description"]) <= 60  # the Hub refuses a longer one
    assert found["pinned"] is False


def test_what_it_requires_is_this_package() -> None:
    name = re.search(r'^name = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert name is not None
    assert (SPACE / "requirements.txt").read_text("utf-8").split() == [name[1]]


def test_every_input_is_described_with_its_default() -> None:
    inputs = CARD[CARD.index("### Inputs") : CARD.index("### Output values")]
    described = re.findall(r"\*\*(\w+)\*\*", inputs)
    parameters = inspect.signature(compute.compute).parameters
    assert described == list(parameters)
    for name, values in (("rule", Rule), ("estimator", Estimator)):
        assert " or ".join(f"`{value}`" for value in get_args(values)) in inputs
        assert f"Default `{parameters[name].default}`" in inputs
    assert f"Default `{list(parameters['k'].default)}`" in inputs


@pytest.mark.parametrize(("title", "text"), examples())
def test_an_example_gives_the_output_that_it_shows(title: str, text: str, request: pytest.FixtureRequest) -> None:
    if ".compute(" in text:
        request.getfixturevalue("sample_image")
    example = doctest.DocTestParser().get_doctest(text, {}, title, str(SPACE / "README.md"), 0)
    failures: list[str] = []
    found = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(example, out=failures.append)
    assert found.attempted > 3
    assert found.failed == 0, "".join(failures)


@pytest.mark.docker
def test_every_output_is_described(sample_image: str) -> None:
    outputs = CARD[CARD.index("### Output values") : CARD.index("## Examples")]
    found = compute.compute([["exit 1"]], ["tiny-gan/3"], k=[1], tasks="sample")
    described = re.findall(r"\*\*(\w+)\*\*", outputs)
    assert {"pass" if key.startswith("pass@") else key for key in found} == {*described, "pass"}
    assert set(found["details"]["tiny-gan/3"][0]) <= set(re.findall(r"`(\w+)`", outputs))


def test_examples_show_the_rules_the_page_and_both_kinds_of_task() -> None:
    texts = [example.values[1] for example in examples()]
    assert len(texts) >= 5
    assert sum(".compute(" in text for text in texts) >= 3
    for expected in ("rule=rule", "bootstrap_interval", "```bash", "[]]", "from gan.training import Trainer"):
        assert any(expected in text for text in texts), expected
