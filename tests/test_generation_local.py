"""Local models are asked as their libraries want it; the libraries themselves are stood in for by what they offer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ml_bench_metric.evaluation import Stop
from ml_bench_solvers.generation import local
from ml_bench_solvers.generation.answers import Answer, Sampling
from ml_bench_solvers.generation.errors import GenerationError, RequestFailed
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.recording import Recorder
from ml_bench_solvers.generation.replies import Choice, Reply
from ml_bench_solvers.generation.work import Work
from tests.generation_builders import folder, prompt, stored, work


class _Vllm(ModuleType):
    """What `vllm` offers of that which is used."""

    def __init__(self) -> None:
        super().__init__("vllm")
        self.batches: list[tuple[list[Any], list[Any]]] = []
        self.LLM = lambda model: SimpleNamespace(chat=self._chat)
        self.SamplingParams = lambda **fields: SimpleNamespace(**fields)

    def _chat(self, conversations: list[Any], parameters: list[Any], use_tqdm: bool) -> list[Any]:
        assert len(conversations) == len(parameters) and not use_tqdm
        self.batches.append((conversations, parameters))
        if any("too long" in conversation[0]["content"] for conversation in conversations):
            raise ValueError("The prompt is longer than the maximum model length of 16.\nmore")
        return [
            SimpleNamespace(
                request_id="7",
                prompt_token_ids=[1, 2, 3],
                outputs=[
                    SimpleNamespace(
                        index=index,
                        text=f"{conversation[0]['content']} {index}",
                        finish_reason="stop",
                        token_ids=[4, 5],
                    )
                    for index in range(wanted.n)
                ],
            )
            for conversation, wanted in zip(conversations, parameters, strict=True)
        ]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> _Vllm:
    module = _Vllm()
    monkeypatch.setitem(sys.modules, "vllm", module)
    return module


def _run(model: local.LocalModel, path: Path, wanted: Work, stop: Stop | None = None) -> list[Answer]:
    with folder(path, wanted) as opened:
        questions = wanted.questions(opened, retry_errors=False)
        local.run_locally(questions, model, Recorder(opened, "m", None), stop or Stop())
    return stored(path, wanted)


def test_vllm_answers_all_tasks_in_a_batch(vllm: _Vllm, tmp_path: Path) -> None:
    wanted = work(3, n=2)
    answers = _run(local.load("vllm", "m"), tmp_path, wanted)
    assert [answer.text for answer in answers] == [f"{p.task_id} {i}" for p in wanted.prompts for i in range(2)]
    [(_, parameters)] = vllm.batches
    assert (parameters[0].n, parameters[0].temperature, parameters[0].max_tokens) == (2, 1.0, 2048)
    assert sum(answer.usage.prompt_tokens for answer in answers if answer.usage) == 9
    assert sum(answer.usage.completion_tokens for answer in answers if answer.usage) == 12


@pytest.mark.parametrize("sampling", [Sampling(seed=5), Sampling(temperature=0)])
def test_draws_that_would_be_the_same_are_made_apart(vllm: _Vllm, tmp_path: Path, sampling: Sampling) -> None:
    _run(local.load("vllm", "m"), tmp_path, work(1, n=3, sampling=sampling))
    [(_, parameters)] = vllm.batches
    assert [fields.n for fields in parameters] == [1, 1, 1]
    assert [fields.seed for fields in parameters] == ([5, 6, 7] if sampling.seed else [None] * 3)


def test_a_prompt_that_does_not_fit_fails_alone(vllm: _Vllm, tmp_path: Path) -> None:
    fitting = work(2)
    prompts = (fitting.prompts[0], prompt(fitting.prompts[1].task_id, "too long"))
    answers = _run(local.load("vllm", "m"), tmp_path, Work(prompts, "m", Sampling(), 1))
    assert [answer.status for answer in answers] == ["ok", "error"]
    assert answers[1].error == "The prompt is longer than the maximum model length of 16."


@pytest.mark.parametrize("backend", ["vllm", "transformers"])
def test_a_missing_package_is_said_with_its_extra(monkeypatch: pytest.MonkeyPatch, backend: local.LocalBackend) -> None:
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.raises(GenerationError, match=rf"pip install 'ml-bench\[{backend}\]'"):
        local.load(backend, "m")


class _Tensor:
    def __init__(self, rows: list[list[int]]) -> None:
        self._rows = rows
        self.shape = (len(rows), len(rows[0]))

    def tolist(self) -> list[list[int]]:
        return self._rows


class _Inputs(dict[str, _Tensor]):
    device = ""

    def to(self, device: str) -> _Inputs:
        self.device = device
        return self


END, FILLER = 0, 99


class _Transformers(ModuleType):
    """What `transformers` offers of that which is used: tokens are the characters' numbers, END ends an answer."""

    def __init__(self, *rows: str) -> None:
        super().__init__("transformers")
        self.seeds: list[int] = []
        self.options: dict[str, Any] = {}
        self._rows = rows
        tokenizer = SimpleNamespace(apply_chat_template=self._template, decode=self._decode)
        model = SimpleNamespace(
            device="",
            config=SimpleNamespace(max_position_embeddings=50),
            generation_config=SimpleNamespace(eos_token_id=[END]),
            generate=self._generate,
            to=self._to,
        )
        self.model = model
        self.AutoTokenizer = SimpleNamespace(from_pretrained=lambda name: tokenizer)
        self.AutoModelForCausalLM = SimpleNamespace(from_pretrained=lambda name, **options: model)
        self.set_seed = self.seeds.append

    def _to(self, device: str) -> SimpleNamespace:
        self.model.device = device
        return self.model

    def _template(self, messages: Any, add_generation_prompt: bool, return_tensors: str, return_dict: bool) -> _Inputs:
        assert add_generation_prompt and return_tensors == "pt" and return_dict
        return _Inputs(input_ids=_Tensor([[ord(c) for c in messages[0]["content"]]]))

    def _decode(self, tokens: Sequence[int], skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(chr(token) for token in tokens if token != END)

    def _generate(self, input_ids: _Tensor, **options: Any) -> _Tensor:
        self.options = options
        count = options["num_return_sequences"]
        made = [[*input_ids.tolist()[0], *(ord(c) for c in row)] for row in self._rows[:count]]
        longest = max(map(len, made))
        return _Tensor([row + [FILLER] * (longest - len(row)) for row in made])


def _transformers(monkeypatch: pytest.MonkeyPatch, *rows: str, gpu: bool = False) -> _Transformers:
    module = _Transformers(*rows)
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: gpu))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", module)
    return module


def test_transformers_answers_end_where_the_model_ends_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = _transformers(monkeypatch, "ls\0", "python a\0", "never end")
    answers = _run(local.load("transformers", "m"), tmp_path, work(1, n=3, sampling=Sampling(max_tokens=9)))
    assert [(answer.text, answer.status) for answer in answers] == [
        ("ls", "ok"),
        ("python a", "ok"),
        ("never end", "length"),
    ]
    assert sum(answer.usage.completion_tokens for answer in answers if answer.usage) == 3 + 9 + 9
    assert module.options["top_k"] == 0 and module.options["do_sample"] and module.options["max_new_tokens"] == 9


def test_transformers_stops_at_a_text_and_leaves_it_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = _transformers(monkeypatch, "ls\n#", "pwd\0")
    [answer] = _run(local.load("transformers", "m"), tmp_path, work(sampling=Sampling(stop=("\n#",), max_tokens=9)))
    assert (answer.text, answer.status) == ("ls", "ok")
    assert module.options["stop_strings"] == ["\n#"] and "tokenizer" in module.options


def test_transformers_draws_with_each_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = _transformers(monkeypatch, "ls\0")
    _run(local.load("transformers", "m"), tmp_path, work(2, n=2, sampling=Sampling(seed=3, max_tokens=9)))
    assert module.seeds == [3, 4, 3, 4]


def test_transformers_refuses_what_does_not_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _transformers(monkeypatch, "ls\0")
    [answer] = _run(local.load("transformers", "m"), tmp_path, work(sampling=Sampling(max_tokens=45)))
    assert answer.status == "error" and "context has 50" in answer.error


@pytest.mark.parametrize(("gpu", "device"), [(True, "cuda"), (False, "cpu")])
def test_transformers_uses_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch, gpu: bool, device: str) -> None:
    module = _transformers(monkeypatch, "ls\0", gpu=gpu)
    local.load("transformers", "m")
    assert module.model.device == device


def test_a_greedy_model_is_not_told_of_sampling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = _transformers(monkeypatch, "ls\0")
    _run(local.load("transformers", "m"), tmp_path, work(sampling=Sampling(temperature=0, max_tokens=9)))
    assert module.options["do_sample"] is False and "temperature" not in module.options


class _Slow:
    batch = 1

    def __init__(self, stop: Stop, times: int) -> None:
        self._stop = stop
        self._times = times
        self.asked = 0

    def answer(self, questions: Sequence[Question]) -> list[Reply | RequestFailed]:
        self.asked += 1
        for _ in range(self._times):
            self._stop.ask()
        if self._times > 1:
            threading.Event().wait(20)
        return [Reply((Choice("ls"),))]


@pytest.mark.parametrize(("times", "known"), [(1, 1), (2, 0)])
def test_it_ends_after_the_batch_or_at_once(tmp_path: Path, times: int, known: int) -> None:
    stop = Stop()
    model = _Slow(stop, times)
    assert len(_run(model, tmp_path, work(5), stop)) == known
    assert model.asked == 1
