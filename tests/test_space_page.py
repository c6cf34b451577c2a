"""The Space's page as people meet it, in a real browser: from a file, in every size and colour scheme, by keyboard."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Request, expect

import ml_bench_sample
from ml_bench_metric.pass_at_k import bootstrap_interval, unbiased
from ml_bench_metric.predictions import read_predictions
from ml_bench_metric.tasks import load_tasks
from tests.browser import open_browser

SPACE = Path(__file__).parents[1] / "ml_bench_metric"
ADDRESS = (SPACE / "index.html").as_uri()
SIZES = {"phone": (360, 740), "desktop": (1280, 900)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(10_000)
    return page


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """The page, freshly loaded. Nothing may be reported to the console, and nothing loaded from elsewhere."""
    reports: list[str] = []

    def on_request(request: Request) -> None:
        if not request.url.startswith(("file:", "data:")):
            reports.append(request.url)

    listeners: list[tuple[Any, Any]] = [
        ("console", lambda message: reports.append(message.text)),
        ("pageerror", lambda error: reports.append(str(error))),
        ("request", on_request),
        ("requestfailed", lambda request: reports.append(request.url)),
    ]
    for event, listener in listeners:
        tab.on(event, listener)
    tab.goto(ADDRESS)
    yield tab
    for event, listener in listeners:
        tab.remove_listener(event, listener)
    assert reports == []


def cells(page: Page, table: str) -> list[list[str]]:
    """Return the texts of a table's body, row by row; all at one moment, since the page may draw it anew."""
    texts: list[list[str]] = page.evaluate(
        "rows => [...document.querySelectorAll(rows)].map(row => [...row.cells].map(cell => cell.innerText))",
        f"{table} tbody tr",
    )
    return [[" ".join(text.split()) for text in row] for row in texts]


# --- the files ---


def test_the_page_loads_every_script_of_the_folder_and_nothing_else() -> None:
    html = (SPACE / "index.html").read_text("utf-8")
    scripts = re.findall(r'<script src="space/([^"]+)"></script>', html)
    assert sorted(scripts) == sorted(path.name for path in (SPACE / "space").glob("*.js"))
    assert len(re.findall("<script", html)) == len(scripts)
    local = re.findall(r'(?:src|href)="([^"#:]+)"', html)
    assert [name for name in local if not (SPACE / name).is_file()] == []
    for path in [SPACE / "index.html", *(SPACE / "space").iterdir()]:
        assert not re.search(r"https?://(?!example\.org)", path.read_text("utf-8")), path


def test_the_examples_are_rows_and_answers_of_the_sample(page: Page) -> None:
    tasks = load_tasks("sample", "L")
    answers = read_predictions(ml_bench_sample.predictions(), tasks).items
    samples = page.evaluate("mlBench.samples")
    assert len(samples) > 5
    for sample in samples:
        task = tasks.by_id[sample["task_id"]]
        columns = ("type", "arguments", "prefix_code", "instruction")
        wanted = {column: getattr(task, column) for column in columns}
        wanted["program"] = answers[task.task_id].candidates[sample["candidate"]]
        assert {name: sample[name] for name in wanted} == wanted, (
            f"samples.js: {sample['title']} has changed in the sample"
        )


# --- static checks ---


def test_an_example_shows_where_the_rules_differ(page: Page) -> None:
    page.get_by_label("Start from an example").select_option(label="bash: arguments in a comment")
    expect(page.locator("#checks-summary")).to_have_text("original: passes · strict: fails (2 arguments missing)")
    assert cells(page, "#checks-result") == [
        ["checkpoint checkpoints/ring.npz", "✓ found", "✓ found"],
        ["num-samples 250", "✓ found", "✗ missing"],
        ["out ring_250.csv", "✓ found", "✗ missing"],
        ["type Bash Script", "✓ yes", "✓ yes approximately"],
        ["static checks", "✓ pass", "✗ fail"],
    ]
    page.get_by_text("What strict reads").click()
    assert page.locator("#tokens li").all_inner_texts() == [
        "python",
        "sample.py",
        "--checkpoint",
        "checkpoints/ring.npz",
    ]


def test_what_is_typed_is_checked_and_shown_as_text(page: Page) -> None:
    page.get_by_label("Python Code").check()
    page.get_by_label("Arguments").fill("{'<b>n</b>': '<img src=x>', 'quiet': ''}")
    page.get_by_label("Environment").fill("export A=1")
    page.locator("#program").fill("import a\na.b('<img src=x>', quiet=True)")
    expect(page.locator("#checks-summary")).to_have_text("original: passes · strict: passes")
    assert cells(page, "#checks-result")[:2] == [
        ["<b>n</b> <img src=x>", "✓ found", "✓ found"],
        ["quiet without a value: the name counts", "✓ found", "✓ found"],
    ]
    page.locator("#program").fill("")
    expect(page.locator("#checks-summary")).to_have_text(
        "original: fails (1 argument missing) · strict: fails (2 arguments missing, not of the type)"
    )


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        ("", "Give a Python dict literal"),
        ("epochs: 5", "not a Python dict literal"),
        ("{'epochs': True}", "The value of 'epochs' is True or False"),
        ("{'epochs': [5]}", "The value of 'epochs' is something else"),
        ("{5: 'epochs'}", "Each name must be a text in quotes"),
        ("{'epochs': 5, 'epochs': 6}", "The name 'epochs' is there twice"),
        ("{'lr': 1e999}", "The value of 'lr' is not finite"),
    ],
)
def test_bad_arguments_are_named_beside_their_field_until_they_are_good(page: Page, literal: str, message: str) -> None:
    field = page.get_by_label("Arguments")
    field.fill(literal)
    expect(page.locator("#arguments-error")).to_contain_text(message)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#checks-summary")).to_have_text("No result: the arguments cannot be read.")
    expect(page.locator("#checks-result")).to_be_empty()
    field.fill("{'epochs': 5}")
    expect(page.locator("#arguments-error")).to_be_empty()
    expect(field).to_have_attribute("aria-invalid", "false")
    expect(page.locator("#checks-result tbody tr")).to_have_count(3)


def test_a_model_s_whole_answer_is_recognised(page: Page) -> None:
    page.locator("#program").fill("Run this:\n```bash\npython train.py --epochs 25\n```")
    expect(page.locator("#program-hint")).to_contain_text("By default the judge takes the program out first")
    page.locator("#program").fill("python train.py --epochs 25")
    expect(page.locator("#program-hint")).to_be_empty()


def test_long_and_deeply_nested_candidates_do_not_break_the_page(page: Page) -> None:
    page.get_by_label("Python Code").check()
    for text in (
        "(" * 500,
        "[" * 199 + "]" * 199,
        "x = " + "not " * 20_000 + "1",
        "a" * 100_001,
        "$(" * 300,
        "f'{" * 90,
    ):
        page.locator("#program").fill(text)
        expect(page.locator("#checks-summary")).to_contain_text("strict: fails")


# --- Pass@k ---


def test_one_task(page: Page) -> None:
    shown = page.locator("#single-result")
    expect(shown).to_have_text(
        "pass@2 = 0.70001 \N{MINUS SIGN} C(3, 2) / C(5, 2): 7 of the 10 ways to draw 2 of 5 hold one that passes."
    )
    page.get_by_label("k drawn").fill("6")
    expect(shown).to_contain_text("undefined")
    page.get_by_label("n candidates").fill("200")
    page.get_by_label("c that pass").fill("17")
    expect(shown).to_contain_text(f"pass@6 = {unbiased([200], [17], 6)[0]:.4f}")
    page.get_by_label("c that pass").fill("201")
    expect(page.locator("#c-error")).to_have_text("c is more than n.")
    expect(shown).to_have_text("No result: a number cannot be read.")
    page.get_by_label("k drawn").fill("0")
    expect(page.locator("#k-error")).to_contain_text("k must be a whole number from 1")
    page.get_by_label("n candidates").fill("2.5")
    expect(page.locator("#n-error")).to_contain_text("n must be a whole number from 0")
    expect(page.locator("#c-error")).to_be_empty()


def test_many_tasks_by_verdicts(page: Page) -> None:
    page.get_by_label("Tasks one per line").fill(
        "a/1: 0 1 1\nPFF\n[false, false, true]\nnone:\n x: fail, fail, fail\n\n"
    )
    page.get_by_label("Values of k").fill("3 1,4")
    expect(page.locator("#tasks-summary")).to_have_text("5 tasks, 12 candidates, 4 pass")
    rows = cells(page, "#tasks-result")
    assert [row[0] for row in rows] == ["pass@1", "pass@3", "pass@4"]
    shares = [2 / 3, 1 / 3, 1 / 3, 0, 0]
    firsts = [0.0, 1.0, 0.0, 0.0, 0.0]
    for cell, values in zip(rows[0][1:], (shares, firsts), strict=True):
        value, low, high = map(float, re.findall(r"[\d.]+", cell))
        assert value == round(float(np.mean(values)), 4)
        assert (low, high) == pytest.approx(bootstrap_interval(values), abs=0.07)
    assert rows[2][1:] == ["undefined a task has fewer candidates"] * 2


def test_many_tasks_by_counts(page: Page) -> None:
    page.get_by_label("n and c").check()
    expect(page.get_by_label("Tasks one per line")).to_have_value(re.compile("^tiny-gan/1 5 2\n"))
    page.get_by_label("Tasks one per line").fill("a 1, 5, 2\n5\t0\n10;9")
    expect(page.locator("#tasks-summary")).to_have_text("3 tasks, 20 candidates, 11 pass")
    assert page.locator("#tasks-result th[scope=col]").all_inner_texts() == ["k", "unbiased"]
    found = [float(row[1].split()[0]) for row in cells(page, "#tasks-result")]
    assert found == [round(float(unbiased([5, 5, 10], [2, 0, 9], k).mean()), 4) for k in (1, 2, 5)]


@pytest.mark.parametrize(
    ("format_", "text", "message"),
    [
        ("n and c", "5 2\n5 6", "Line 2: c is 6, more than n, which is 5."),
        ("n and c", "five 2", "Line 1: n ('five') must be a whole number from 0"),
        ("n and c", "5", "Line 1: give n and c, such as: 5 2"),
        ("n and c", "", "Give at least one task"),
        ("pass or fail, in order", "1 0\n\n1 2", "Line 3: '2' is no verdict"),
        ("pass or fail, in order", "a/1 1 0 1", "Line 1: 'a/1' is no verdict"),
        ("pass or fail, in order", "x\nx\nx\nx\nx", "… and 2 more."),
    ],
)
def test_bad_tasks_are_named_by_their_line(page: Page, format_: str, text: str, message: str) -> None:
    page.get_by_label(format_).check()
    page.get_by_label("Tasks one per line").fill(text)
    expect(page.locator("#tasks-error")).to_contain_text(message)
    expect(page.locator("#tasks-summary")).to_have_text("No result: the tasks cannot be read.")
    expect(page.locator("#tasks-result")).to_be_empty()


def test_as_many_tasks_as_the_page_takes_are_computed_and_more_are_refused(page: Page) -> None:
    # Set at once: typing thousands of lines, as `fill` does, takes Chromium many seconds.
    change = "(field, text) => { field.value = text; field.dispatchEvent(new Event('input', {bubbles: true})); }"
    page.locator("#tasks").evaluate(change, "10110\n" * 2000)
    expect(page.locator("#tasks-summary")).to_have_text("2000 tasks, 10000 candidates, 6000 pass")
    assert cells(page, "#tasks-result")[0] == ["pass@1", "0.6000 [0.6000, 0.6000]", "1.0000 [1.0000, 1.0000]"]
    page.locator("#tasks").evaluate(change, "10110\n" * 2001)
    expect(page.locator("#tasks-error")).to_have_text("There are 2001 tasks; this page takes up to 2000.")


def test_bad_values_of_k_are_named(page: Page) -> None:
    for text, message in (
        ("", "Give one or more values of k"),
        ("1, 0", "k ('0') must be"),
        ("1.5", "k ('1.5') must be"),
    ):
        page.get_by_label("Values of k").fill(text)
        expect(page.locator("#ks-error")).to_contain_text(message)


# --- whoever uses it, on whatever ---

CONTRASTS = """() => {
    const channel = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const colour = text => text.match(/[\\d.]+/g).map(Number);
    const background = element => {
        for (let at = element; at; at = at.parentElement) {
            const found = colour(getComputedStyle(at).backgroundColor);
            if (found.length === 3 || found[3] === 1) return found;
        }
        return [255, 255, 255];
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
        const colours = [colour(getComputedStyle(element).color), background(element)];
        const [light, dark] = colours.map(luminance).sort((a, b) => b - a);
        found.push([(light + 0.05) / (dark + 0.05), walker.currentNode.data.trim().slice(0, 40)]);
    }
    return found;
}"""


TOO_WIDE = """all => all
    .filter(found => found.getBoundingClientRect().right > found.parentElement.getBoundingClientRect().right + 0.5)
    .map(found => found.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize(("size", "scheme"), [*itertools.product(SIZES, ("light", "dark"))])
def test_it_fits_and_can_be_read_in_every_size_and_scheme(browser: Browser, size: str, scheme: Any) -> None:
    width, height = SIZES[size]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(ADDRESS)
    assert page.locator("table").count() == 2
    assert page.locator("table").evaluate_all(TOO_WIDE) == []
    page.get_by_text("What strict reads").click()
    page.locator("#program").fill("python " + "very_long_name_" * 30 + ".py")
    page.get_by_label("Arguments").fill(json.dumps({"n" * 200: "v" * 200, "ok": "python"}))
    page.get_by_label("Tasks one per line").fill("x" * 300)
    page.get_by_label("k drawn").fill("x")
    expect(page.locator("#tasks-error")).not_to_be_empty()
    expect(page.locator("#checks-summary")).to_contain_text("missing")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("table, p, ul, textarea, input").evaluate_all(TOO_WIDE) == []
    shown = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", shown)[:3])) < 200) == (scheme == "dark")
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 60
    assert [text for contrast, text in contrasts if contrast < 4.5] == []
    page.close()


FOCUSED = """() => {
    const at = document.activeElement;
    return [at.id || at.name || at.tagName, getComputedStyle(at).outlineStyle];
}"""


def test_every_control_has_a_label_and_is_reached_by_keyboard(page: Page) -> None:
    controls = page.locator("input, select, textarea")
    unnamed = [
        control.get_attribute("id") for control in controls.all() if not control.evaluate("c => c.labels.length")
    ]
    assert unnamed == []
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(tuple(page.evaluate(FOCUSED)))
    names = {name for name, _ in reached}
    fields = {"sample", "type", "arguments", "prefix", "program", "n", "c", "k", "format", "tasks", "ks", "SUMMARY"}
    assert fields <= names
    assert {outline for name, outline in reached if name in fields} == {"solid"}
    described = page.locator("[aria-describedby]").evaluate_all(
        "all => all.flatMap(c => c.getAttribute('aria-describedby').split(' '))"
    )
    assert [name for name in described if not page.locator(f"#{name}").count()] == []


def test_a_task_can_be_checked_by_keyboard_alone(page: Page) -> None:
    page.get_by_label("Start from an example").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("{'n': 7}")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("print(7)")
    expect(page.locator("#checks-summary")).to_have_text("original: passes · strict: passes")
