"""Models on this machine: vLLM and transformers. Their packages are extras, and are imported when a model is made."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

from ml_bench_metric.evaluation import Stop
from ml_bench_solvers.generation.answers import Answer, Usage
from ml_bench_solvers.generation.errors import GenerationError, RequestFailed
from ml_bench_solvers.generation.question import Question
from ml_bench_solvers.generation.recording import Recorder
from ml_bench_solvers.generation.replies import Choice, Reply

LocalBackend = Literal["vllm", "transformers"]

_LOOKS_SECONDS = 0.1


class LocalModel(Protocol):
    """A model that this process runs."""

    batch: int
    """Questions that it takes at a time."""

    def answer(self, questions: Sequence[Question]) -> list[Reply | RequestFailed]:
        """Return what became of each question."""


def load(backend: LocalBackend, model: str) -> LocalModel:
    """Return a model, loaded.

    Raises:
        GenerationError: its package is not installed, or it cannot be loaded.
    """
    try:
        return VllmModel(model) if backend == "vllm" else TransformersModel(model)
    except ImportError as error:
        raise GenerationError(
            f"--backend {backend} needs a package that is not installed ({error}): pip install 'ml-bench[{backend}]'"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise GenerationError(f"{backend} cannot load {model!r}: {reason}; check --model") from error


def run_locally(
    questions: Sequence[Question],
    model: LocalModel,
    recorder: Recorder,
    stop: Stop,
    advance: Callable[[Answer], None] = lambda answer: None,
) -> None:
    """Ask a local model, batch by batch, and store what comes.

    Args:
        questions: in the order in which they are asked.
        model: that answers.
        recorder: stores answers.
        stop: asks the run to end.
        advance: told of every answer that was stored.

    Raises:
        RunError: an answer cannot be stored.
    """
    # One by one where several draws at once would be the same draw.
    single = [part for whole in questions for part in (whole.apart() if _is_drawn_apart(whole) else [whole])]
    for begin in range(0, len(single), model.batch):
        if stop.finish:
            return
        batch = single[begin : begin + model.batch]
        results = _until_stopped(lambda batch=batch: model.answer(batch), stop)  # type: ignore[misc]
        if results is None:
            return
        for question, result in zip(batch, results, strict=True):
            if isinstance(result, Reply):
                answers: Iterator[Answer] = recorder.answered(question, result)
            else:
                answers = recorder.failed(question, result)
            for answer in answers:
                advance(answer)


def _is_drawn_apart(question: Question) -> bool:
    return len(question.indices) > 1 and (question.seed is not None or question.sampling.temperature == 0)


def _until_stopped(work: Callable[[], list[Reply | RequestFailed]], stop: Stop) -> list[Reply | RequestFailed] | None:
    """Return the result of some work; None where the run is to end at once, which native code cannot be told."""
    results: list[list[Reply | RequestFailed]] = []
    errors: list[BaseException] = []

    def do() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    while thread.is_alive() and not stop.now:
        thread.join(_LOOKS_SECONDS)
    if errors:
        raise errors[0]
    return results[0] if results else None


class VllmModel:
    """A model in vLLM."""

    batch = 64

    def __init__(self, model: str) -> None:
        self._vllm = importlib.import_module("vllm")
        self._model = self._vllm.LLM(model=model)
        self._name = model

    def answer(self, questions: Sequence[Question]) -> list[Reply | RequestFailed]:
        """Return what became of each question."""
        try:
            return list(self._answered(questions))
        except ValueError as error:
            # One prompt that does not fit fails its whole batch.
            if len(questions) > 1:
                return [result for question in questions for result in self.answer([question])]
            return [_refused(error)]

    def _answered(self, questions: Sequence[Question]) -> Iterator[Reply]:
        begun = time.monotonic()
        outputs = self._model.chat(
            [[dict(message) for message in question.prompt.messages] for question in questions],
            [self._parameters(question) for question in questions],
            use_tqdm=False,
        )
        seconds = time.monotonic() - begun
        for output in outputs:
            yield Reply(
                choices=tuple(Choice(part.text, part.finish_reason or "") for part in output.outputs),
                usage=Usage(
                    prompt_tokens=len(output.prompt_token_ids or ()),
                    completion_tokens=sum(len(part.token_ids) for part in output.outputs),
                ),
                model=self._name,
                request_id=str(output.request_id),
                seconds=seconds,
            )

    def _parameters(self, question: Question) -> Any:
        sampling = question.sampling
        return self._vllm.SamplingParams(
            n=len(question.indices),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=sampling.max_tokens,
            seed=question.seed,
            stop=list(sampling.stop) or None,
            **sampling.extra,
        )


class TransformersModel:
    """A model in transformers."""

    batch = 1

    def __init__(self, model: str) -> None:
        self._transformers = importlib.import_module("transformers")
        self._tokenizer = self._transformers.AutoTokenizer.from_pretrained(model)
        loaded = self._transformers.AutoModelForCausalLM.from_pretrained(model, torch_dtype="auto")
        torch = importlib.import_module("torch")
        self._model = loaded.to("cuda" if torch.cuda.is_available() else "cpu")
        self._name = model

    def answer(self, questions: Sequence[Question]) -> list[Reply | RequestFailed]:
        """Return what became of each question."""
        results: list[Reply | RequestFailed] = []
        for question in questions:
            try:
                results.append(self._answered(question))
            except (ValueError, IndexError, RuntimeError) as error:
                results.append(_refused(error))
        return results

    def _answered(self, question: Question) -> Reply:
        begun = time.monotonic()
        sampling = question.sampling
        inputs = self._tokenizer.apply_chat_template(
            [dict(message) for message in question.prompt.messages],
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        ).to(self._model.device)
        prompt_tokens = int(inputs["input_ids"].shape[-1])
        self._require_room(prompt_tokens, sampling.max_tokens or 1)
        if question.seed is not None:
            self._transformers.set_seed(question.seed)
        options: dict[str, Any] = {"num_return_sequences": len(question.indices), "do_sample": sampling.temperature > 0}
        if sampling.temperature > 0:
            # The library's own top_k would cut what top_p = 1 is to leave.
            options |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
        if sampling.max_tokens is not None:
            options["max_new_tokens"] = sampling.max_tokens
        if sampling.stop:
            options |= {"stop_strings": list(sampling.stop), "tokenizer": self._tokenizer}
        rows = self._model.generate(**inputs, **options, **sampling.extra).tolist()
        read = [self._choice(row[prompt_tokens:], sampling.stop) for row in rows]
        return Reply(
            choices=tuple(choice for choice, _ in read),
            usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=sum(tokens for _, tokens in read)),
            model=self._name,
            seconds=time.monotonic() - begun,
        )

    def _require_room(self, prompt_tokens: int, new_tokens: int) -> None:
        longest = getattr(self._model.config, "max_position_embeddings", None)
        if isinstance(longest, int) and prompt_tokens + new_tokens > longest:
            raise ValueError(
                f"the prompt has {prompt_tokens} tokens, and {new_tokens} are to follow; the context has {longest}"
            )

    def _choice(self, tokens: list[int], stop: tuple[str, ...]) -> tuple[Choice, int]:
        """Return the choice of a row of new tokens, and how many of them are its own: shorter rows are filled up."""
        ends = self._model.generation_config.eos_token_id
        ends = set(ends if isinstance(ends, list) else [ends])
        length = next((place + 1 for place, token in enumerate(tokens) if token in ends), None)
        own = tokens[:length]
        text: str = self._tokenizer.decode(own, skip_special_tokens=True)
        # As servers do: what stops is no part of the answer.
        found = [place for place in (text.find(word) for word in stop) if place >= 0]
        ended = length is not None or bool(found)
        return Choice(text[: min(found)] if found else text, "stop" if ended else "length"), len(own)


def _refused(error: Exception) -> RequestFailed:
    reason = str(error).strip().splitlines()
    return RequestFailed(reason[0] if reason else type(error).__name__, label="refused", retryable=False)
