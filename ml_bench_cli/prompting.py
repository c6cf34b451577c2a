"""Options of the commands that make prompts, and making what they ask for."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from ml_bench_solvers.prompt import Setting
    from ml_bench_solvers.prompts import PromptMaker

Mirrors = Annotated[
    Path | None,
    typer.Option(
        "--repositories",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="Folder with git mirrors, bare or not, or with plain folders of the repositories' files; what is not "
        "there is cloned.",
    ),
]
FromImages = Annotated[
    bool, typer.Option("--from-images", help="Take the repositories' files from the images that were built.")
]
BudgetOption = Annotated[
    str,
    typer.Option(
        "--budget",
        metavar="100k|400k|N",
        help="How much of a repository is shown: characters, or with --tokenizer tokens.",
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(metavar="NAME_OR_FILE", help="Count the budget in its tokens: a tokenizer.json or a name on the Hub."),
]
UnitOption = Annotated[
    Literal["sentence", "chunk"],
    typer.Option("--unit", help="What retrieval searches: windows of sentences, or chunks of code."),
]
Window = Annotated[
    int | None, typer.Option(min=1, help="Units of a passage; by default 10 sentences, 1 chunk.", show_default=False)
]
Stride = Annotated[int, typer.Option(min=1, help="Units from one passage to the next.")]
Limit = Annotated[
    int | None,
    typer.Option(
        min=1, help="Units that count, from the text's beginning: 1,000 sentences, 20,000 chunks.", show_default=False
    ),
]
TemplateOption = Annotated[
    Path | None,
    typer.Option(
        "--template",
        metavar="FOLDER_OR_FILE",
        exists=True,
        help="Other wording: a Jinja2 file of the user's message, or a folder with user.jinja and system.jinja.",
    ),
]
ListArguments = Annotated[
    bool,
    typer.Option(
        "--list-arguments", help="List the values that the judge looks for, which the benchmark does not tell a model."
    ),
]


@dataclass(frozen=True)
class Prompting:
    """What the options ask for."""

    mirrors: Path | None = None
    from_images: bool = False
    budget: str = "100k"
    tokenizer: str | None = None
    unit: Literal["sentence", "chunk"] = "sentence"
    window: int | None = None
    stride: int = 1
    limit: int | None = None
    template: Path | None = None
    list_arguments: bool = False
    no_cache: bool = False
    quiet: bool = False

    def makers(self, settings: Iterable[Setting]) -> tuple[PromptMaker, ...]:
        """Return what makes the prompts of some settings, in their order; the repositories are read once for all.

        Raises:
            ml_bench_solvers.prompt_error.PromptError: a template, a tokenizer or a number is of no use.
        """
        from ml_bench_solvers.checkouts import RepositoryTexts
        from ml_bench_solvers.cutting import parse_budget
        from ml_bench_solvers.digest_cache import INDICES, TEXTS, DigestCache
        from ml_bench_solvers.prompts import PromptMaker
        from ml_bench_solvers.retrieval import Passages
        from ml_bench_solvers.templates import read_template

        texts = RepositoryTexts(
            self.mirrors,
            from_images=self.from_images,
            cache=None if self.no_cache else DigestCache(TEXTS),
            progress=(lambda line: None) if self.quiet else _to_standard_error,
        )
        budget = parse_budget(self.budget, self.tokenizer)
        passages = Passages(self.unit, self.window, self.stride, self.limit)
        template = read_template(self.template)
        cache = None if self.no_cache else DigestCache(INDICES)
        return tuple(
            PromptMaker(
                setting,
                texts,
                budget=budget,
                passages=passages,
                template=template,
                list_arguments=self.list_arguments,
                cache=cache,
            )
            for setting in settings
        )


def _to_standard_error(line: str) -> None:
    from ml_bench_metric.printable import printable

    print(printable(line), file=sys.stderr, flush=True)
