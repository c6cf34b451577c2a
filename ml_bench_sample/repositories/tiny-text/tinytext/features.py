"""From n-grams to numbers."""

from collections import Counter

import numpy as np

from tinytext.tokens import ngrams


class Vocabulary:
    """The most frequent n-grams of a corpus; counts them in a text, weighted by rarity where `tfidf` is set."""

    def __init__(self, terms, longest, weights=None):
        self.terms, self.longest = list(terms), longest
        self.index = {term: i for i, term in enumerate(self.terms)}
        self.weights = np.ones(len(self.terms)) if weights is None else np.asarray(weights)

    @classmethod
    def learn(cls, texts, longest=1, max_features=2000, tfidf=False):
        documents = [ngrams(text, longest) for text in texts]
        counts = Counter(term for document in documents for term in document)
        terms = [term for term, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:max_features]]
        if not tfidf:
            return cls(terms, longest)
        frequency = Counter(term for document in documents for term in set(document))
        return cls(terms, longest, [np.log((1 + len(texts)) / (1 + frequency[t])) + 1.0 for t in terms])

    def transform(self, texts):
        """Texts -> array (texts, terms)."""
        counts = np.zeros((len(texts), len(self.terms)))
        for row, text in zip(counts, texts):
            for term in ngrams(text, self.longest):
                if term in self.index:
                    row[self.index[term]] += 1.0
        return counts * self.weights
