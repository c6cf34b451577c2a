"""A key goes to the server that it is for, and to no other; places that make no sense are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from ml_bench_metric.evaluation import Stop
from ml_bench_solvers.generation.client import Endpoint, endpoint
from ml_bench_solvers.generation.errors import GenerationError, GenerationStopped
from ml_bench_solvers.generation.recording import Recorder
from ml_bench_solvers.generation.server import run_on_server
from tests.generation_builders import FAST, folder, stored, texts, work
from tests.model_server import ModelServer, completion, in_turn


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The user's token for Hugging Face."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    yield "hf_secret"


def _ask(place: Endpoint, path: Path) -> list[str]:
    wanted = work()
    with folder(path, wanted) as opened:
        questions = wanted.questions(opened, retry_errors=False)
        run_on_server(place, "org/model", questions, Recorder(opened, "m", None), path, FAST, Stop())
    return texts(stored(path, wanted))


def test_the_token_of_hugging_face_is_not_sent_to_others(tmp_path: Path, token: str) -> None:
    with ModelServer(in_turn(completion("ls"))) as server:
        place = endpoint(server.url, None, None)
        assert place.key is None
        assert _ask(place, tmp_path) == ["ls"]
        assert all(token not in str(headers) for headers in server.headers)


@pytest.mark.parametrize(
    "url",
    [
        "https://huggingface.co/v1",
        "https://router.huggingface.co/v1",
        "https://x.us-east-1.aws.endpoints.huggingface.cloud/v1",
    ],
)
def test_the_token_of_hugging_face_is_for_its_hosts(url: str, token: str) -> None:
    assert endpoint(url, None, None).key == token


@pytest.mark.parametrize(
    "url",
    [
        "http://huggingface.co/v1",
        "https://huggingface.co.example.com/v1",
        "https://nothuggingface.co/v1",
        "https://example.com/huggingface.co",
    ],
)
def test_what_looks_like_hugging_face_gets_no_token(url: str) -> None:
    assert endpoint(url, None, None).key is None


def test_a_key_is_read_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", " sk-1\n")
    place = endpoint("http://localhost:1/v1", None, "MY_KEY")
    assert place.key == "sk-1"
    assert "sk-1" not in repr(place)


@pytest.mark.parametrize("value", [None, "", "  ", "sk-\x01", "sk-ä"])
def test_a_variable_without_a_key_is_refused(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(GenerationError, match="MY_KEY") as raised:
        endpoint("http://localhost:1/v1", None, "MY_KEY")
    assert "sk-" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000/v1",
        "ftp://host/v1",
        "http://",
        "http://[",
        "http://host:99999999/v1",
        "/v1",
        "http://:8000/v1",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(GenerationError, match="is no URL"):
        endpoint(url, None, None)


@pytest.mark.parametrize("url", ["https://me:secret@host/v1", "https://host/v1?key=secret", "https://host/v1#secret"])
def test_a_secret_in_a_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(GenerationError, match="--api-key-env") as raised:
        endpoint(url, None, None)
    assert "secret" not in str(raised.value)


def test_an_old_huggingface_hub_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "__version__", "0.36.2")
    with pytest.raises(GenerationError, match=r"0\.36\.2: pip install 'huggingface_hub>=1'"):
        endpoint("http://localhost:1/v1", None, None)


def test_two_places_are_refused() -> None:
    with pytest.raises(GenerationError, match="--provider"):
        endpoint("http://localhost:1/v1", "together", None)


def test_providers_need_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(GenerationError, match="HF_TOKEN"):
        endpoint(None, None, None)


def test_inference_providers_are_asked_with_the_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token: str
) -> None:
    from huggingface_hub.inference import _providers

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with ModelServer(in_turn(completion("ls"))) as server:
        monkeypatch.setattr(_providers.CONVERSATIONAL_AUTO_ROUTER, "base_url", server.url.removesuffix("/v1"))
        assert _ask(endpoint(None, None, None), tmp_path) == ["ls"]
        assert server.headers[0]["authorization"] == f"Bearer {token}"
        assert server.requests[0]["model"] == "org/model"


def test_offline_mode_is_for_the_hub_alone(tmp_path: Path) -> None:
    with pytest.raises(GenerationStopped, match="HF_HUB_OFFLINE"):
        _ask(endpoint(None, None, None), tmp_path)
