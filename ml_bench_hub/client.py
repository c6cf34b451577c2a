"""The Hub's client, with its errors in one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ml_bench_hub.errors import HubError, one_line

if TYPE_CHECKING:
    from huggingface_hub import HfApi


def connect() -> HfApi:
    """Return the client, with the endpoint and the token that its own settings name."""
    from huggingface_hub import HfApi

    return HfApi(library_name="ml-bench")


def require_token(api: HfApi) -> None:
    """Raise `HubError` where there is no token to write with."""
    from huggingface_hub import get_token

    if not (api.token or get_token()):
        raise HubError("there is no token to write to the Hub with: run `hf auth login`, or set HF_TOKEN")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn the client's errors into `HubError`.

    Args:
        what: is being done, with the repository's name; the message begins with it.
    """
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

    # The client's HTTP library, and so its errors, differ between versions; the client's own error inherits from it.
    connection = tuple(kind for kind in HfHubHTTPError.__mro__ if issubclass(kind, Exception) and kind is not Exception)
    try:
        yield
    except HubError:
        raise
    except OfflineModeIsEnabled as error:
        raise HubError(f"{what}: HF_HUB_OFFLINE is set, so the Hub is not asked; unset it") from error
    except LocalTokenNotFoundError as error:
        raise HubError(f"{what}: there is no token: run `hf auth login`, or set HF_TOKEN") from error
    except HfHubHTTPError as error:
        raise HubError(f"{what}: {_of_status(error)}") from error
    except connection as error:
        raise HubError(f"{what}: the Hub cannot be reached ({type(error).__name__}: {one_line(error)})") from error
    except ValueError as error:  # Such as metadata that the Hub refuses, or a name that no repository can have.
        raise HubError(f"{what}: {one_line(error)}") from error


def _of_status(error: Exception) -> str:
    from huggingface_hub.errors import RepositoryNotFoundError

    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    said = getattr(error, "server_message", None) or ""
    said = f" ({one_line(said)})" if said else ""
    if isinstance(error, RepositoryNotFoundError):
        return f"there is no such repository, or the token may not see it ({status})"
    reasons = {
        401: "the Hub does not accept the token: run `hf auth login`, or set HF_TOKEN to a valid one",
        403: "the token may not do that: it needs the right to write there",
        404: "there is no such thing on the Hub",
        409: "somebody else is changing the repository, or it exists already; run the command again",
        412: "the repository has changed since it was read; run the command again",
        413: "a file is too large for the Hub",
        429: "the Hub allows no more requests now; wait some minutes, and run the command again",
    }
    if status in reasons:
        return f"{reasons[status]} ({status}){said}"
    if isinstance(status, int) and status >= 500:
        return f"the Hub has a problem of its own ({status}){said}; try again later"
    return f"the Hub refuses it ({status}): {said.strip(' ()') or one_line(error)}"
