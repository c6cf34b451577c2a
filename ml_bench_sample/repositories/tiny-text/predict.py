"""Label texts with a saved classifier: one text from the command line, or a file with one text per line."""

import argparse
from pathlib import Path

from tinytext.classifier import TextClassifier


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-file", type=Path, required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text")
    source.add_argument("--input", type=Path, help="file with one text per line")
    parser.add_argument("--output", type=Path, help="write label, probability and text here instead of printing them")
    parser.add_argument("--min-probability", type=float, default=0.0, help="label less certain texts `unsure`")
    args = parser.parse_args()

    classifier = TextClassifier.load(args.model_file)
    texts = [args.text] if args.text is not None else args.input.read_text(encoding="utf-8").splitlines()
    lines = [
        f"{label if probability >= args.min_probability else 'unsure'}\t{probability:.3f}\t{text}"
        for text, (label, probability) in zip(texts, classifier.predict(texts))
    ]
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{len(lines)} texts labelled in {args.output}")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
