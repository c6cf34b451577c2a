"""List the most frequent n-grams of every label."""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tinytext import data  # noqa: E402
from tinytext.tokens import ngrams  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=Path)
    parser.add_argument("--top-k", type=int, default=10)
    parser.add_argument("--ngram", type=int, default=1)
    parser.add_argument("--min-length", type=int, default=4, help="ignore n-grams with fewer letters")
    args = parser.parse_args()

    counts = {}
    for label, text in zip(*data.read(args.input)):
        terms = (term for term in ngrams(text, args.ngram) if len(term) >= args.min_length)
        counts.setdefault(label, Counter()).update(terms)
    for label, counter in sorted(counts.items()):
        print(f"{label}: " + ", ".join(f"{term} ({count})" for term, count in counter.most_common(args.top_k)))


if __name__ == "__main__":
    main()
