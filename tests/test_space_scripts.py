"""What the Space's page computes agrees with the package: its scripts, in a real browser, beside their counterparts."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

import ml_bench_dataset
import ml_bench_sample
from ml_bench_metric import prose, shell, syntax
from ml_bench_metric.checks import check, matching, tokens
from ml_bench_metric.extraction import extract
from ml_bench_metric.pass_at_k import bootstrap_interval, ordered, unbiased
from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.results import RULES
from ml_bench_metric.tasks import Task, load_tasks
from tests.browser import open_browser
from tests.space_texts import PYTHON_TEXTS, bash_lines, bash_texts, mutated, python_texts


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with open_browser() as browser:
        page = browser.new_page()
        page.goto((Path(__file__).parents[1] / "ml_bench_metric/index.html").as_uri())
        yield page


def in_page(page: Page, function: str, rows: Sequence[Any]) -> list[Any]:
    """Return what a JavaScript function makes of each row, errors other than an `InputError` raised."""
    found: list[Any] = page.evaluate(
        f"""rows => rows.map(row => {{
            try {{ return ({function})(row); }}
            catch (error) {{ if (error instanceof mlBench.arguments.InputError) return null; throw error; }}
        }})""",
        rows,
    )
    return found


def differing(inputs: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """Return (input, by Python, by the page) where the two differ."""
    return [triple for triple in zip(inputs, expected, found, strict=True) if triple[1] != triple[2]]


CHECK = """({program, language, literal, prefix}) => mlBench.checks.check(program, {
    language,
    arguments: mlBench.arguments.parseArguments(literal),
    variables: mlBench.arguments.exportedVariables(prefix),
})"""


def disagreements(page: Page, cases: Sequence[tuple[Task, str]]) -> dict[str, list[str]]:
    """Return for each check (`strict type`, ...) the programs on which page and package differ."""
    rows = [
        {"program": text, "language": task.language, "literal": task.arguments, "prefix": task.prefix_code}
        for task, text in cases
    ]
    found: dict[str, list[str]] = {}
    for (task, text), by_page in zip(cases, in_page(page, CHECK, rows), strict=True):
        for rule in RULES:
            by_package = check(text, task, rule)
            missing = [f"{name}={task.argument_values[name]}" for name in by_page[rule]["missing"]]
            pairs: dict[str, Any] = {"arguments": (list(by_package.missing), missing)}
            pairs["type"] = (by_package.type, by_page[rule]["type"])
            for name, (wanted, shown) in pairs.items():
                wrong = found.setdefault(f"{rule} {name}", [])
                wrong += [f"{task.task_id}: {text!r}: {wanted} != {shown}"] if wanted != shown else []
    return found


def report(found: dict[str, list[str]], cases: int) -> str:
    return "; ".join(f"{name}: {cases - len(wrong)} of {cases} agree" for name, wrong in found.items())


NONE_DIFFER: dict[str, list[str]] = {f"{rule} {name}": [] for rule in RULES for name in ("arguments", "type")}


def test_checks_agree_on_every_answer_and_reference_of_the_sample(page: Page) -> None:
    tasks = load_tasks("sample", "L")
    cases = [(task, task.output) for task in tasks.tasks]
    for task_id, prediction in read_predictions(ml_bench_sample.predictions(), tasks).items.items():
        task = tasks.by_id[task_id]
        cases += [(task, text) for text in prediction.candidates]
        programs = [extract(text, task.language, "auto").program for text in prediction.candidates]
        cases += [(task, program) for program in programs if program is not None]
    found = disagreements(page, cases)
    print(report(found, len(cases)))
    assert len(cases) > 300
    assert found == NONE_DIFFER


@pytest.mark.real_data
def test_checks_agree_on_the_real_answers_and_references(page: Page, real_data: Path) -> None:
    tasks = load_tasks(str(real_data / "upstream"), "full")
    cases = [(task, task.output) for task in tasks.tasks]
    for task_id, prediction in read_predictions(real_data / "predictions/gpt4_agent_pass5.jsonl", tasks).items.items():
        cases += [(tasks.by_id[task_id], text) for text in prediction.candidates]
    found = disagreements(page, cases)
    print(report(found, len(cases)))
    assert len(cases) == 260 + 265
    assert found == NONE_DIFFER


def test_python_is_read_as_python_reads_it(page: Page) -> None:
    assert syntax.python_tree(PYTHON_TEXTS) is not None
    texts = python_texts()
    trees = [syntax.python_tree(text) for text in texts]
    kinds = [
        None if tree is None else [syntax.does_something(tree), syntax.is_python_program(text)]
        for text, tree in zip(texts, trees, strict=True)
    ]
    by_page = in_page(
        page,
        """text => {
            const tree = mlBench.pythonTree.pythonTree(text);
            return tree && [mlBench.pythonTree.doesSomething(tree), mlBench.pythonTree.isPythonProgram(text)];
        }""",
        texts,
    )
    assert 100 < kinds.count(None) < len(texts) - 100
    assert differing(texts, kinds, by_page) == []
    words = [tokens.of_program(text, "python", {}) for text in texts]
    by_page = in_page(page, "text => mlBench.tokens.ofProgram(text, 'python', new Map())", texts)
    assert differing(texts, words, by_page) == []


def test_bash_is_read_as_the_package_reads_it(page: Page) -> None:
    texts = bash_texts()
    variables = {"RUN_DIR": "/tmp/a b", "A": "x y"}
    scripts = [shell.read(text, variables) for text in texts]
    expected = [
        {
            "commands": [
                [[[word.text, word.quoted] for word in command.words], command.assignments, command.documents]
                for command in script.commands
            ],
            "functions": sorted(script.functions),
            "complete": script.complete,
            "readings": [prose.reading(command, script.functions) for command in script.commands],
            "feeds": prose.feeds_documents(script),
            "tokens": tokens.of_program(text, "bash", variables),
        }
        for text, script in zip(texts, scripts, strict=True)
    ]
    function = """text => {
        const variables = new Map(Object.entries(%s));
        const script = mlBench.shell.read(text, variables);
        const words = command => command.words.map(word => [word.text, word.quoted]);
        return {
            commands: script.commands.map(command => [words(command), command.assignments, command.documents]),
            functions: [...script.functions].sort(),
            complete: script.complete,
            readings: script.commands.map(command => mlBench.prose.reading(command, script.functions)),
            feeds: mlBench.prose.feedsDocuments(script),
            tokens: mlBench.tokens.ofProgram(text, "bash", variables),
        };
    }"""
    assert differing(texts, expected, in_page(page, function % json.dumps(variables), texts)) == []


def test_listed_words_and_programs_of_prose_are_those_of_the_package(page: Page) -> None:
    listed = [prose._FUNCTION_WORDS, prose._PROGRAMS, prose._LAUNCHERS, prose._WRAPPERS, prose._OPENING, prose._CLOSING]
    words = sorted(frozenset().union(*listed))
    texts = [
        text for word in words for text in (word, f"{word} train --x 1", f"run {word} {word}", f"echo {word} b.py")
    ]
    expected = [[prose.reading(command) for command in shell.read(text).commands] for text in texts]
    function = "text => mlBench.shell.read(text).commands.map(command => mlBench.prose.reading(command, new Set()))"
    assert differing(texts, expected, in_page(page, function, texts)) == []


def test_the_grammar_of_bash_is_close_to_what_bash_says(page: Page) -> None:
    known = bash_lines()
    texts = [*known, *bash_texts()[len(known) :: 3]]
    accepted = [syntax.bash_accepts(text) for text in texts]
    wrong = differing(texts, accepted, in_page(page, "text => mlBench.bashGrammar.accepts(text)", texts))
    print(f"bash -n: {len(texts) - len(wrong)} of {len(texts)} agree; {wrong}")
    assert 100 < sum(accepted) < len(texts) - 100
    assert [triple for triple in wrong if triple[0] in known] == []
    assert len(wrong) <= 0.01 * len(texts)


VALUES = r"""
0.002|1e-3|128|5|-1|.5|./data/a//b/|x.csv|data/x.csv|ResNet50|InfoGAN|city|a|A|--quiet|-j|é|--lr=0.1|ring_250.csv|10%
'small_models_learn'|https://x.org/a:b|small models learn|(50, 49, 512)|8,10|-j 2|[1]|…
"""


def test_values_are_found_where_the_package_finds_them(page: Page) -> None:
    pieces = [*"abZ019._-/=:, ()é²Ⅷ😀", "./", "//", "es", "ing", "0.10", "e-3", "--", "conv1", "label2"]
    values = re.split(r"[|\n]", VALUES.strip())
    texts = mutated(values, pieces, 4000, seed=3)
    dice = random.Random(4)
    cases: list[tuple[list[str], str]] = []
    for text in texts:
        value = dice.choice([*values, text[: dice.randint(1, 12)], text]).strip()
        around = dice.choice(["", "x", "1", "-", "."]), dice.choice(["", "s", "0", ".", "X"])
        if value:
            cases.append(([value.join(around), *dice.sample(texts, 3)][: dice.randint(1, 4)], value))
    haystacks = [(matching.Haystack(words), value) for words, value in cases]
    expected = [[haystack.has_value(value), haystack.has_name(value)] for haystack, value in haystacks]
    assert 500 < sum(has_value for has_value, _ in expected) < len(cases) - 500
    function = """([words, value]) => {
        const haystack = new mlBench.matching.Haystack(words);
        return [haystack.hasValue(value), haystack.hasName(value)];
    }"""
    assert differing(cases, expected, in_page(page, function, cases)) == []


LITERALS = r"""
{} | {'a': -0.0, "b": 1e16, 'c': 0.00001, 'd': 0x1F, 'e': 1_000, 'f': +1, 'g': 123456789012345678901} | {'a': True}
{'a': None} | {'a': [1]} | {'a': 1e999} | {'a': b'x'} | {1: 'a'} | {'a': 1, 'a': 2} | {'a': 'b' 'c\\n'} | {'a': 1 + 2}
{'a': 1j} | {'a'} | [1] | a | {'a': f'x'} | {**a} | {'a': --1} | {'a': r'\n', } # c | {'a': 1}) | {'a': 1},
{"a": true} | 'a': 1 | {'a': ...} | | {'a': '\U0001f600'} | x := {} | {'a': (1)} | {'a': -True} | {'a': '\x41\101\t'}
{'a': 0o17} | {'a': 1}; | {'a': 1}\
"""


@pytest.mark.filterwarnings("ignore:.*invalid")
def test_argument_literals_are_taken_and_refused_as_by_the_package(page: Page) -> None:
    rows = [task.arguments for task in load_tasks("sample", "L").tasks]
    more = [*re.split(r" \| |\n", LITERALS), "{\n'a':\n1}"]
    pieces = ["'", '"', "{", "}", ":", ",", "1", "-", ".", "e5", "None", "\n", "#", "\\", "(", "u", "0"]
    texts = [*rows, *more, *mutated([*rows, *more], pieces, 2500, seed=5)]
    expected: list[Any] = []
    for text in texts:
        try:
            expected.append([[name, str(value)] for name, value in ml_bench_dataset.parse_arguments(text).items()])
        except ml_bench_dataset.DataError:
            expected.append(None)
    assert 500 < expected.count(None) < len(texts) - 200
    function = "text => [...mlBench.arguments.parseArguments(text)].map(([name, value]) => [name, value.text])"
    assert differing(texts, expected, in_page(page, function, texts)) == []


def test_exported_variables_are_those_of_the_package(page: Page) -> None:
    task = load_tasks("sample", "L").tasks[0]
    rows = [row.prefix_code for row in load_tasks("sample", "L").tasks if row.prefix_code]
    rows += [
        'export A=1 B=\'x y\' C=$A/${B}\n$ export D="q\\""$A # c\n  export E=a#b é=1 1x=2 =3 F',
        "export A=$$A\nexport B=$A",
        "export D=1;export DE=$D && export F=$DE${D}\nexport PATH=$PATH:/x B=$(pwd) A=1 || export A=2",
    ]
    texts = [
        *rows,
        *mutated(
            rows,
            [
                '"',
                "'",
                "\\",
                "#",
                " ",
                "$",
                "{",
                "=",
                "export ",
                "\n",
                "\r",
                "\x85",
                "é",
                "$ ",
                ";",
                "&&",
                "|",
                "`",
                "${",
            ],
            2000,
            seed=6,
        ),
    ]
    expected = [list(map(list, task.model_copy(update={"prefix_code": text}).variables.items())) for text in texts]
    assert (
        differing(texts, expected, in_page(page, "text => [...mlBench.arguments.exportedVariables(text)]", texts)) == []
    )


def test_pass_at_k_is_the_package_s_to_the_last_digit(page: Page) -> None:
    small = itertools.product(range(26), range(26), (1, 2, 3, 5, 10, 25))
    counts = [*(count for count in small if count[1] <= count[0]), (1000, 3, 100), (300, 299, 7)]
    estimates = [unbiased([n], [c], k).tolist()[0] for n, c, k in counts]
    expected = [None if np.isnan(value) else value for value in estimates]
    function = "([n, c, k]) => { const v = mlBench.passAtK.unbiased(n, c, k); return Number.isNaN(v) ? null : v; }"
    assert differing(counts, expected, in_page(page, function, counts)) == []
    verdicts = [list(given) for n in range(5) for given in itertools.product([True, False], repeat=n)]
    lists = list(itertools.product(verdicts, (1, 2, 4)))
    first = [ordered([given], k).tolist()[0] for given, k in lists]
    function = "([list, k]) => { const v = mlBench.passAtK.ordered(list, k); return Number.isNaN(v) ? null : v; }"
    assert differing(lists, [None if np.isnan(v) else v for v in first], in_page(page, function, lists)) == []


def test_intervals_are_the_package_s_up_to_a_task_s_weight(page: Page) -> None:
    dice = np.random.RandomState(0)
    rows = [
        unbiased([5] * n, dice.binomial(5, p, n), k).tolist()
        for n in (1, 2, 20, 68, 260)
        for p in (0.1, 0.5)
        for k in (1, 5)
    ]
    rows.append([1.0] * 40)
    found = in_page(page, "values => mlBench.passAtK.intervals([values])[0]", rows)
    for values, interval in zip(rows, found, strict=True):
        spread = float(np.std(values)) / len(values) ** 0.5
        assert interval == pytest.approx(bootstrap_interval(values), abs=max(1 / len(values), 0.1 * spread))
    again = in_page(page, "values => mlBench.passAtK.intervals([values.reverse()])[0]", [rows[-2]])
    assert again == found[-2:-1]
