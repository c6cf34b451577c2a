"""Cut a file of labelled texts into two."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tinytext import data  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("input", type=Path)
    parser.add_argument("--ratio", type=float, default=0.8, help="share of the first file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out-dir", type=Path, default=Path("split"))
    args = parser.parse_args()

    for name, part in zip(("train.tsv", "test.tsv"), data.split(*data.read(args.input), args.ratio, args.seed)):
        data.write(args.out_dir / name, *part)
        print(f"{len(part[0]):4d} texts in {args.out_dir / name}")


if __name__ == "__main__":
    main()
