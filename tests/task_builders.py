"""Tasks, as the tests of prompts need them."""

from __future__ import annotations

from ml_bench_metric.tasks import Task


def task(**changes: object) -> Task:
    """Return a task of a repository that no recipe knows, changed in some fields."""
    fields: dict[str, object] = {
        "github_id": 77,
        "github": "https://example.org/somebody/Some-Repo",
        "repo_id": 1,
        "path": "./tools/",
        "arguments": "{'learning rate': '0.25'}",
        "instruction": "Please train the model with a learning rate of 0.25.",
        "oracle": "Run `python train.py --lr 0.1` to train.",
        "type": "Bash Script",
        "id": 1,
        "prefix_code": "",
        "output": "python train.py --lr 0.25  # the reference that nobody may see",
        "task_id": "Some-Repo/1",
        "repository": "Some-Repo",
        "commit": None,
        "domain": None,
        "environment": None,
    }
    return Task.model_validate({**fields, **changes})
