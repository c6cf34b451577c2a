"""What can go wrong when answers are asked for."""

from __future__ import annotations

from ml_bench_solvers.generation.answers import Usage


class GenerationError(ValueError):
    """Generation cannot begin as it was asked for; the message says why and what to do."""


class GenerationStopped(RuntimeError):  # noqa: N818 - it names the situation
    """Generation was given up, since going on would be of no use; the message says why and what to do."""


class RequestFailed(Exception):  # noqa: N818 - it names the situation
    """A request brought no answer."""

    def __init__(
        self,
        message: str,
        *,
        label: str,
        status: int | None = None,
        retryable: bool = True,
        retry_after: float | None = None,
        too_long: bool = False,
        usage: Usage | None = None,
    ) -> None:
        """Tell what is known of the failure.

        Args:
            message: what failed, without secrets.
            label: the kind of failure in a word, for the log and for telling likewise failures: `429`, `timeout`, …
            status: HTTP status, where there was one.
            retryable: whether the same request may do better later.
            retry_after: seconds that the server asks to wait.
            too_long: whether the prompt does not fit into the model's context.
            usage: tokens that it cost all the same.
        """
        super().__init__(message)
        self.label = label
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.too_long = too_long
        self.usage = usage
        self.attempts = 1


class Abandoned(Exception):  # noqa: N818 - it names the situation
    """A request was given up because the run is to end; nothing is known of it, and nothing is stored."""
