"""Makes stand-ins for what the references of BERT read: checkpoints, MRPC, SQuAD and examples for pre-training.

Runs in the repository's folder, with Python 3.7 and TensorFlow 1.15. Every text comes from the repository's own
`sample_text.txt`, every weight from a fixed seed; all seven models are the same tiny one.
"""

from __future__ import annotations

import collections
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path.cwd()))
import modeling
import run_pretraining
import tokenization

MODELS = (
    "uncased_L-12_H-768_A-12",
    "cased_L-12_H-768_A-12",
    "uncased_L-24_H-1024_A-16",
    "cased_L-24_H-1024_A-16",
    "wwm_uncased_L-24_H-1024_A-16",
    "wwm_cased_L-24_H-1024_A-16",
    "multi_cased_L-12_H-768_A-12",
)

PRETRAINING_TASKS = {
    (512, 20): (31, 41, 42, 45, 56),
    (512, 30): (37, 43, 53),
    (256, 20): (47, 49, 59),
    (256, 30): (46, 48),
}
"""(Length of an example, predictions in it) -> the tasks whose examples must be so, all under the same file name."""

TMP = Path("/opt/assets/tmp")
"""Has a folder `<task_id>` for each task that finds something in its `/tmp`."""

WORDS = 1500
"""So many of the most frequent words are in the vocabulary whole; the others are spelt."""

SENTENCES = [line for line in Path("sample_text.txt").read_text(encoding="utf-8").splitlines() if len(line) > 20]


def main() -> None:
    """Write everything below the repository's folder and `TMP`."""
    random.seed(0)
    first = Path("model", MODELS[0])
    make_model(first, vocabulary())
    for name in MODELS[1:]:
        for file in first.iterdir():
            link(file, Path("model", name, file.name))
    make_mrpc(Path("data/glue_data/MRPC"))
    make_squad(Path("data/squad"))
    for (length, predictions), tasks in PRETRAINING_TASKS.items():
        make_examples(length, predictions, [TMP / f"bert/{task}/tf_examples.tfrecord" for task in tasks])


def link(file: Path, name: Path) -> None:
    """Give a file a further name, which takes no room."""
    name.parent.mkdir(parents=True, exist_ok=True)
    os.link(str(file), str(name))


def vocabulary() -> list[str]:
    """Return the word pieces in the real order: special ones with their real numbers, then characters, then words."""
    words: collections.Counter[str] = collections.Counter()
    for do_lower_case in (True, False):
        tokenizer = tokenization.BasicTokenizer(do_lower_case=do_lower_case)
        words.update(token for sentence in SENTENCES for token in tokenizer.tokenize(sentence))
    characters = sorted(set("".join(words)))
    frequent = sorted((word for word in words if len(word) > 1), key=lambda word: (-words[word], word))[:WORDS]
    unused = [f"[unused{number}]" for number in range(99)]
    inner = [f"##{character}" for character in characters]
    return ["[PAD]", *unused, "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *inner, *frequent]


def make_model(folder: Path, pieces: list[str]) -> None:
    """Write a model of two thin layers with random weights, in the files of a released one."""
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    config = modeling.BertConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=512,
        type_vocab_size=2,
    )
    (folder / "bert_config.json").write_text(config.to_json_string(), encoding="utf-8")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(0)
        model = modeling.BertModel(config, is_training=False, input_ids=tf.zeros([1, 8], tf.int32))
        one = tf.zeros([1, 1], tf.int32)
        # The heads for pre-training bring the variables that the released checkpoints have besides the model's.
        run_pretraining.get_masked_lm_output(
            config, model.get_sequence_output(), model.get_embedding_table(), one, one, tf.ones([1, 1])
        )
        run_pretraining.get_next_sentence_output(config, model.get_pooled_output(), one)
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(folder / "bert_model.ckpt"), write_meta_graph=False)
    (folder / "checkpoint").unlink()


def make_mrpc(folder: Path) -> None:
    """Write pairs of sentences, with random labels."""
    folder.mkdir(parents=True)
    for part, count in (("train", 64), ("dev", 16), ("test", 16)):
        lines = ["\t".join(("index" if part == "test" else "Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"))]
        for number in range(count):
            pair = "\t".join(random.choice(SENTENCES)[:100] for _ in range(2))
            value = number if part == "test" else random.randrange(2)
            lines.append(f"{value}\t{2 * number}\t{2 * number + 1}\t{pair}")
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_squad(folder: Path) -> None:
    """Write two questions on one paragraph; in version 2.0 the second has no answer.

    The paragraph is longer than the program's window. The layer that finds an answer is in no checkpoint: it chooses
    places at random, in every run others, and the program fails where none of them lies inside of the paragraph.
    """
    folder.mkdir(parents=True)
    context = " ".join(SENTENCES)
    for version in ("1.1", "2.0"):
        for part in ("train", "dev"):
            asked = [question(f"{part}-{version}-{number}", context) for number in range(2)]
            if version == "2.0":
                asked[0]["is_impossible"] = False
                asked[1].update(is_impossible=True, answers=[])
            paragraphs = [{"context": context, "qas": asked}]
            content = {"version": version, "data": [{"title": "Sample", "paragraphs": paragraphs}]}
            (folder / f"{part}-v{version}.json").write_text(json.dumps(content), encoding="utf-8")


def question(name: str, context: str) -> dict[str, object]:
    """Return a question on a random word of a text, with that word and its place as the answer."""
    words = context.split(" ")
    index = random.randrange(1, len(words))
    start = sum(len(word) + 1 for word in words[:index])
    return {
        "id": name,
        "question": f"What comes after {words[index - 1]}?",
        "answers": [{"text": words[index], "answer_start": start}],
    }


def make_examples(length: int, predictions: int, files: list[Path]) -> None:
    """Write examples for pre-training with the repository's own program, under all the names given."""
    files[0].parent.mkdir(parents=True)
    subprocess.run(
        [
            sys.executable,
            "create_pretraining_data.py",
            "--input_file=sample_text.txt",
            f"--output_file={files[0]}",
            f"--vocab_file=model/{MODELS[0]}/vocab.txt",
            f"--max_seq_length={length}",
            f"--max_predictions_per_seq={predictions}",
            "--dupe_factor=1",
        ],
        check=True,
    )
    for name in files[1:]:
        link(files[0], name)


if __name__ == "__main__":
    main()
