"""A vocabulary, a model and the names of the classes: everything that turns a text into a label."""

import json
from pathlib import Path

import numpy as np

from tinytext.features import Vocabulary
from tinytext.models import LinearClassifier


class TextClassifier:
    """Fit on labelled texts, ask for labels of others, keep it in a JSON file."""

    def __init__(self, vocabulary, model, labels=()):
        self.vocabulary, self.model, self.labels = vocabulary, model, list(labels)

    def fit(self, labels, texts):
        """Returns the losses of the model's training."""
        self.labels = sorted(set(labels))
        targets = np.array([self.labels.index(label) for label in labels])
        return self.model.fit(self.vocabulary.transform(texts), targets, len(self.labels))

    def predict(self, texts):
        """Texts -> list of (label, probability)."""
        probabilities = self.model.probabilities(self.vocabulary.transform(texts))
        best = probabilities.argmax(axis=1)
        return [(self.labels[i], float(row[i])) for i, row in zip(best, probabilities)]

    def accuracy(self, labels, texts):
        """Share of texts that get their label."""
        return float(np.mean([guess == label for (guess, _), label in zip(self.predict(texts), labels)]))

    def save(self, path):
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        state = {
            "labels": self.labels,
            "longest": self.vocabulary.longest,
            "terms": self.vocabulary.terms,
            "weights": self.vocabulary.weights.round(5).tolist(),
            "weight": self.model.weight.round(5).tolist(),
            "bias": self.model.bias.round(5).tolist(),
        }
        path.write_text(json.dumps(state, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path):
        state = json.loads(Path(path).read_text(encoding="utf-8"))
        model = LinearClassifier()
        model.weight, model.bias = np.array(state["weight"]), np.array(state["bias"])
        return cls(Vocabulary(state["terms"], state["longest"], state["weights"]), model, state["labels"])
