"""Adversarial losses: values and gradients with respect to the critic's outputs."""

import numpy as np


def _sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * x))


class NonSaturating:
    """Logistic loss; the generator maximises log D(G(z))."""

    @staticmethod
    def critic(real, fake):
        loss = np.logaddexp(0.0, -real).mean() + np.logaddexp(0.0, fake).mean()
        return loss, (_sigmoid(real) - 1.0) / len(real), _sigmoid(fake) / len(fake)

    @staticmethod
    def generator(fake):
        return np.logaddexp(0.0, -fake).mean(), (_sigmoid(fake) - 1.0) / len(fake)


class LeastSquares:
    """Squared distance of the critic's output to 1 (real) and 0 (fake)."""

    @staticmethod
    def critic(real, fake):
        loss = 0.5 * ((real - 1.0) ** 2).mean() + 0.5 * (fake**2).mean()
        return loss, (real - 1.0) / len(real), fake / len(fake)

    @staticmethod
    def generator(fake):
        return 0.5 * ((fake - 1.0) ** 2).mean(), (fake - 1.0) / len(fake)


class Wasserstein:
    """Difference of the mean outputs; the critic's weights must be clipped."""

    @staticmethod
    def critic(real, fake):
        return fake.mean() - real.mean(), np.full_like(real, -1.0 / len(real)), np.full_like(fake, 1.0 / len(fake))

    @staticmethod
    def generator(fake):
        return -fake.mean(), np.full_like(fake, -1.0 / len(fake))


LOSSES = {"gan": NonSaturating, "lsgan": LeastSquares, "wgan": Wasserstein}
