"""Train a text classifier and measure it on texts it has not seen."""

import argparse
from pathlib import Path

from tinytext import data
from tinytext.classifier import TextClassifier
from tinytext.features import Vocabulary
from tinytext.models import Logistic, NaiveBayes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="labelled texts")
    parser.add_argument("--model", choices=["bayes", "logistic"], default="bayes")
    parser.add_argument("--ngram", type=int, default=1, help="longest run of words that is a feature")
    parser.add_argument("--max-features", type=int, default=2000)
    parser.add_argument("--tfidf", action="store_true", help="weigh the features by their rarity")
    parser.add_argument("--smoothing", type=float, default=1.0, help="of naive Bayes")
    parser.add_argument("--epochs", type=int, default=100, help="of logistic regression")
    parser.add_argument("--lr", type=float, default=0.5, help="learning rate of logistic regression")
    parser.add_argument("--l2", type=float, default=0.001, help="weight decay of logistic regression")
    parser.add_argument("--train-ratio", type=float, default=0.8, help="share of the texts to train on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("model.json"))
    args = parser.parse_args()

    training, test = data.split(*data.read(args.data), args.train_ratio, args.seed)
    vocabulary = Vocabulary.learn(training[1], args.ngram, args.max_features, args.tfidf)
    model = NaiveBayes(args.smoothing) if args.model == "bayes" else Logistic(args.epochs, args.lr, args.l2)
    classifier = TextClassifier(vocabulary, model)
    losses = classifier.fit(*training)
    if losses:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    print(f"{len(vocabulary.terms)} features, {len(training[0])} texts, accuracy {classifier.accuracy(*training):.3f}")
    if test[0]:
        print(f"test: {len(test[0])} texts, accuracy {classifier.accuracy(*test):.3f}")
    classifier.save(args.out)
    print(f"saved to {args.out}")


if __name__ == "__main__":
    main()
