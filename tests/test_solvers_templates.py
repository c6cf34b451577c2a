"""Templates can be replaced, say who they are, and fail with the line to look at; what they are given stays inert."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_bench_solvers.prompt_error import PromptError
from ml_bench_solvers.templates import NAME, fenced, read_template


def folder_of(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / (name if name == "VERSION" else f"{name}.jinja")).write_text(text, encoding="utf-8")
    return folder


def test_our_own_have_a_name_a_version_and_a_digest() -> None:
    name, _, rest = read_template().name.partition("/")
    version, _, digest = rest.partition("-")
    assert (name, version, len(digest)) == (NAME, "1", 12)


def test_a_folder_gives_the_system_and_the_users_message_and_may_include_others(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, system="Be {{ a }}.", user="{% include '_part.jinja' %}!", _part="Do {{ a }}", VERSION="7\n"
    )
    template = read_template(folder)
    assert template.render({"a": "it"}) == (
        {"role": "system", "content": "Be it."},
        {"role": "user", "content": "Do it!"},
    )
    assert template.name.startswith("mine/7-")


def test_a_file_is_the_users_message_alone(tmp_path: Path) -> None:
    file = folder_of(tmp_path, other="{{ a }}\r\n  \n", system="not this") / "other.jinja"
    template = read_template(file)
    assert template.render({"a": "b"}) == ({"role": "user", "content": "b"},)
    assert template.name.startswith("other/0-")


def test_blank_messages_are_left_out(tmp_path: Path) -> None:
    assert read_template(folder_of(tmp_path, system=" \n", user="x")).render({}) == ({"role": "user", "content": "x"},)


def test_the_digest_changes_with_every_file_and_with_nothing_else(tmp_path: Path) -> None:
    names = {
        read_template(folder_of(tmp_path, user=user, system=system)).name
        for user, system in (("a", "b"), ("b", "a"), ("ab", ""), ("a", "b"))
    }
    assert len(names) == 3
    folder = folder_of(tmp_path, user="x")
    before = read_template(folder).name
    (folder / "notes.txt").write_text("not part of it")
    assert read_template(folder).name == before


@pytest.mark.parametrize(
    ("wrong", "line", "reason"),
    [
        ("one\ntwo {{ missing }}", 2, "'missing' is undefined"),
        ("one\n\n{{ a.nothing }}", 3, "no attribute 'nothing'"),
        ("{{ 1 / 0 }}", 1, "division by zero"),
        ("x\n{% if %}\n", 2, "Expected an expression"),
        ("x\n\n{% for a in b %}\n", 3, "Unexpected end of template"),
        ("x\n{{ a | nofilter }}", 2, "No filter named 'nofilter'"),
        ("x\n{{ a.__class__.__mro__ }}", 2, "unsafe"),
        ("x\n{% include 'none.jinja' %}", 2, "none.jinja"),
    ],
)
@pytest.mark.parametrize("place", ["user", "_part"])
def test_an_error_names_file_and_line(tmp_path: Path, wrong: str, line: int, reason: str, place: str) -> None:
    files = {"user": "{% include '_part.jinja' %}", "_part": "", place: wrong}
    with pytest.raises(PromptError) as caught:
        read_template(folder_of(tmp_path, **files)).render({"a": "b"})
    assert str(caught.value).startswith(f"{tmp_path / 'mine' / place}.jinja:{line}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_template_reads_no_file_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.jinja").write_text("secret")
    with pytest.raises(PromptError, match="secret"):
        read_template(folder_of(tmp_path, user="{% include '../secret.jinja' %}")).render({})


def test_a_folder_without_the_users_message_and_a_file_that_is_no_text_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"has no user\.jinja"):
        read_template(tmp_path)
    (tmp_path / "binary.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(PromptError, match="cannot be read"):
        read_template(tmp_path / "binary.jinja")


def test_values_are_no_template_text(tmp_path: Path) -> None:
    hostile = "{{ 7 * 7 }}{% raw %}{# c #}</script>"
    template = read_template(folder_of(tmp_path, user="{{ a }}"))
    assert template.render({"a": hostile})[0]["content"] == hostile


@pytest.mark.parametrize(("text", "fence"), [("x", "```"), ("a ```b``` c", "````"), ("`````", "``````")])
def test_a_fence_is_longer_than_any_in_the_text(text: str, fence: str) -> None:
    assert fenced(text, "bash") == f"{fence}bash\n{text}\n{fence}"
