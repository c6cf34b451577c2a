"""Every task of the real benchmark has its prompt under every setting, with the repositories' text at their commits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ml_bench_metric.tasks import Task, load_tasks
from ml_bench_solvers.checkouts import RepositoryTexts
from ml_bench_solvers.digest_cache import DigestCache
from ml_bench_solvers.inert import without_markers
from ml_bench_solvers.prompt import SETTINGS, Prompt
from ml_bench_solvers.prompts import PromptMaker

pytestmark = pytest.mark.real_data

BUDGET = 100_000


@pytest.fixture(scope="module")
def made(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Task, dict[str, Prompt]]]:
    folder = os.environ.get("ML_BENCH_REPOSITORIES", "")
    if not folder:
        pytest.skip("ML_BENCH_REPOSITORIES is not set: the tests on the real repositories' text did NOT run")
    cache = DigestCache("prompts", tmp_path_factory.mktemp("cache"))
    texts = RepositoryTexts(Path(folder), cache=cache)
    makers = [PromptMaker(setting, texts, cache=cache) for setting in SETTINGS]
    tasks = load_tasks(str(real_data / "upstream"), "full").tasks
    return [(task, {maker.setting: maker.make(task) for maker in makers}) for task in tasks]


def test_each_says_the_task_its_folder_and_the_form_of_the_answer(made: list[tuple[Task, dict[str, Prompt]]]) -> None:
    assert len(made) == 260
    for task, prompts in made:
        form = "```bash" if task.language == "bash" else "```python"
        for prompt in prompts.values():
            content = prompt.messages[-1]["content"]
            assert task.instruction.strip() in content
            assert f"The working folder is {task.working_folder}" in content
            assert f"One block that begins with {form}." in content
            content.encode()


def test_contexts_are_there_and_keep_to_the_budget(made: list[tuple[Task, dict[str, Prompt]]]) -> None:
    for task, prompts in made:
        sizes = {setting: prompt.context_characters for setting, prompt in prompts.items()}
        assert sizes["instruction"] == 0
        assert 20_000 < sizes["code"] <= BUDGET
        assert 0 < sizes["retrieval"] <= BUDGET
        if len(task.oracle.strip()) < BUDGET - 1000:
            assert sizes["oracle"] == len(without_markers(task.oracle.strip())[0])


def test_the_text_of_a_repository_begins_with_its_readme(made: list[tuple[Task, dict[str, Prompt]]]) -> None:
    for _, prompts in made:
        context = prompts["code"].messages[-1]["content"].partition("<<< ")[2].partition("\n")[2]
        assert context.lower().startswith("===== readme")
