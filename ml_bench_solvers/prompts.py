"""Making prompts: what of the repository a model is shown under a setting, and the words around it."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ml_bench_metric.tasks import WORKSPACE, Task
from ml_bench_solvers.checkouts import RepositoryTexts
from ml_bench_solvers.cutting import PRESETS, Budget, CharacterBudget
from ml_bench_solvers.digest_cache import INDICES, TEXTS, DigestCache
from ml_bench_solvers.inert import boundary_of, without_markers
from ml_bench_solvers.prompt import SETTINGS, Prompt, Setting
from ml_bench_solvers.prompt_error import PromptError
from ml_bench_solvers.retrieval import Found, Index, Passages, index_of
from ml_bench_solvers.templates import Template, read_template


@dataclass(frozen=True)
class _Context:
    """What a model is shown of a repository."""

    text: str = ""
    cut: bool = False
    markers: int = 0
    """Chat markers in it that were made harmless."""
    path: str = ""
    """Of the file that it begins in; empty for all but a passage that was found."""


class PromptMaker:
    """Makes the prompts of one setting. Any number of threads may use it."""

    def __init__(
        self,
        setting: Setting,
        texts: RepositoryTexts | None = None,
        *,
        budget: Budget | None = None,
        passages: Passages | None = None,
        template: Template | None = None,
        list_arguments: bool = False,
        cache: DigestCache | None = None,
    ) -> None:
        """Prepare; nothing of a repository is read yet.

        Args:
            setting: what of the repository is shown.
            texts: where the repositories' text comes from; None: clones. Settings `oracle` and `instruction` need none.
            budget: of what is shown, in all settings; None: 100,000 characters.
            passages: what `retrieval` searches.
            template: the wording; None: this project's own.
            list_arguments: whether the prompt lists the values that the judge looks for. The benchmark does not: they
                are to be taken from the instruction.
            cache: of indices; None: each is made anew.

        Raises:
            PromptError: the templates cannot be read.
        """
        self.setting = setting
        self._texts = texts or RepositoryTexts()
        self._budget = budget or CharacterBudget(PRESETS["100k"])
        self._passages = passages or Passages()
        self.template = template or read_template()
        self._list_arguments = list_arguments
        self._cache = cache
        self._of_code: dict[tuple[str, str | None], _Context] = {}
        self._indices: dict[tuple[str, str | None], Index] = {}
        self._lock = threading.Lock()

    def make(self, task: Task) -> Prompt:
        """Return the prompt for a task.

        Raises:
            RepositoryError: the setting needs the repository's text, and it cannot be had.
            PromptError: a template failed, or package `bm25s` is missing.
        """
        context = self._context(task)
        values: dict[str, object] = {
            "task": task_facts(task),
            "setting": self.setting,
            "context": context.text,
            "cut": context.cut,
            "markers": context.markers,
            "path": context.path,
            "boundary": boundary_of(context.text),
            "list_arguments": self._list_arguments,
        }
        return Prompt(
            task_id=task.task_id,
            setting=self.setting,
            messages=self.template.render(values),
            template=self.template.name,
            context_characters=len(context.text),
            cut=context.cut,
        )

    def search(self, task: Task, count: int) -> list[Found]:
        """Return the passages that fit a task's instruction best, the best first; `retrieval` shows the first.

        Raises:
            RepositoryError: the repository's text cannot be had.
            PromptError: package `bm25s` is missing.
        """
        key = self._texts.key_of(task)
        with self._lock:
            if key not in self._indices:
                self._indices[key] = index_of(self._texts.text_of(task), self._passages, self._cache)
        return self._indices[key].search(task.instruction, count)

    def _context(self, task: Task) -> _Context:
        if self.setting == "code":
            key = self._texts.key_of(task)
            with self._lock:
                if key not in self._of_code:  # the same for all tasks of a repository
                    self._of_code[key] = self._fitting(self._texts.text_of(task).text)
            return self._of_code[key]
        if self.setting == "retrieval":
            found = self.search(task, 1)
            return self._fitting(found[0].text, found[0].path) if found else _Context()
        return self._fitting(task.oracle.strip()) if self.setting == "oracle" else _Context()

    def _fitting(self, whole: str, path: str = "") -> _Context:
        first = self._budget.cut(whole)
        inert, markers = without_markers(first)
        text = self._budget.cut(inert)
        return _Context(text, len(first) < len(whole) or len(text) < len(inert), markers, path)


def task_facts(task: Task) -> dict[str, object]:
    """Return what a template may know of a task: all but the reference."""
    return {
        "task_id": task.task_id,
        "repository": task.repository,
        "github": task.github,
        "commit": task.commit,
        "domain": task.domain,
        "type": task.type,
        "language": task.language,
        "instruction": task.instruction,
        "arguments": dict(task.argument_values),
        "prefix_code": task.prefix_code.strip(),
        "variables": dict(task.variables),
        "root": posixpath.join(WORKSPACE, task.directory),
        "folder": task.working_folder,
    }


def prompts_for(tasks: Iterable[Task], setting: str, mirrors: Path | None = None) -> Iterator[tuple[Task, Prompt]]:
    """Yield tasks with their prompts in this project's own wording, in their order.

    Args:
        tasks: the tasks.
        setting: what of the repository is shown.
        mirrors: folder with git mirrors of the repositories; None: those that a setting needs are cloned.

    Raises:
        PromptError: there is no such setting, or a prompt cannot be made.
    """
    known = next((one for one in SETTINGS if one == setting), None)
    if known is None:
        raise PromptError(f"there is no setting {setting!r}; give one of {', '.join(SETTINGS)}")
    texts = RepositoryTexts(mirrors, cache=DigestCache(TEXTS))
    maker = PromptMaker(known, texts, cache=DigestCache(INDICES))
    return ((task, maker.make(task)) for task in tasks)
