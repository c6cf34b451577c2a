"""What can be wrong with the making of prompts, and a person can mend."""

from __future__ import annotations


class PromptError(ValueError):
    """A prompt cannot be made. The message says why and what to do."""


class RepositoryError(PromptError):
    """The files of a task's repository cannot be had; prompts for other repositories may be made all the same."""
