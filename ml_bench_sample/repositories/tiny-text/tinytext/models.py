"""Classifiers over feature vectors. Both are linear in the end: `weight` (features, classes) and `bias` (classes)."""

import numpy as np


def softmax(x):
    x = np.exp(x - x.max(axis=1, keepdims=True))
    return x / x.sum(axis=1, keepdims=True)


class LinearClassifier:
    """Scores are features @ weight + bias."""

    weight = None
    bias = None

    def probabilities(self, features):
        """(n, features) -> (n, classes)."""
        return softmax(features @ self.weight + self.bias)


class NaiveBayes(LinearClassifier):
    """Multinomial naive Bayes with additive smoothing."""

    def __init__(self, smoothing=1.0):
        self.smoothing = smoothing

    def fit(self, features, targets, classes):
        counts = np.stack([features[targets == c].sum(axis=0) for c in range(classes)], axis=1) + self.smoothing
        self.weight = np.log(counts / counts.sum(axis=0))
        self.bias = np.log(np.bincount(targets, minlength=classes) / len(targets))
        return []


class Logistic(LinearClassifier):
    """Multinomial logistic regression, trained by full-batch gradient descent."""

    def __init__(self, epochs=100, lr=0.5, l2=1e-3):
        self.epochs, self.lr, self.l2 = epochs, lr, l2

    def fit(self, features, targets, classes):
        """Returns the loss before every epoch."""
        self.weight, self.bias = np.zeros((features.shape[1], classes)), np.zeros(classes)
        wanted = np.eye(classes)[targets]
        losses = []
        for _ in range(self.epochs):
            probabilities = self.probabilities(features)
            losses.append(float(-np.log(probabilities[np.arange(len(targets)), targets]).mean()))
            error = (probabilities - wanted) / len(targets)
            self.weight -= self.lr * (features.T @ error + self.l2 * self.weight)
            self.bias -= self.lr * error.sum(axis=0)
        return losses
