"""The adversarial game."""

import numpy as np

from gan.datasets import DATASETS
from gan.losses import LOSSES
from gan.metrics import sliced_distance
from gan.networks import MLP
from gan.optim import Adam

BATCHES_PER_EPOCH = 10


class Trainer:
    """A generator and a critic that play against each other on one data set."""

    def __init__(
        self, dataset, loss="gan", lr=1e-3, latent_dim=2, hidden=32, batch_size=64, n_critic=1, clip=None, seed=0
    ):
        self.rng = np.random.default_rng(seed)
        self.draw = DATASETS[dataset]
        self.loss = LOSSES[loss]
        self.latent_dim, self.batch_size, self.n_critic, self.clip = latent_dim, batch_size, n_critic, clip
        self.generator = MLP((latent_dim, hidden, hidden, 2), self.rng)
        self.critic = MLP((2, hidden, hidden, 1), self.rng)
        self.generator_optimiser = Adam(self.generator.parameters, lr)
        self.critic_optimiser = Adam(self.critic.parameters, lr)

    def noise(self, count):
        return self.rng.normal(size=(count, self.latent_dim))

    def critic_step(self):
        real = self.draw(self.batch_size, self.rng)
        fake = self.generator.forward(self.noise(self.batch_size))
        outputs = self.critic.forward(np.concatenate([real, fake]))
        loss, real_gradient, fake_gradient = self.loss.critic(outputs[: len(real)], outputs[len(real) :])
        gradients, _ = self.critic.backward(np.concatenate([real_gradient, fake_gradient]))
        self.critic_optimiser.step(gradients)
        if self.clip is not None:
            self.critic.clip(self.clip)
        return loss

    def generator_step(self):
        fake = self.generator.forward(self.noise(self.batch_size))
        loss, gradient = self.loss.generator(self.critic.forward(fake))
        _, at_samples = self.critic.backward(gradient)
        gradients, _ = self.generator.backward(at_samples)
        self.generator_optimiser.step(gradients)
        return loss

    def epoch(self):
        """Play one epoch; returns the mean losses (critic, generator)."""
        critic, generator = [], []
        for _ in range(BATCHES_PER_EPOCH):
            critic.extend(self.critic_step() for _ in range(self.n_critic))
            generator.append(self.generator_step())
        return float(np.mean(critic)), float(np.mean(generator))

    def distance(self, count=512):
        """Distance between generated and real samples; smaller is better."""
        return sliced_distance(self.generator.forward(self.noise(count)), self.draw(count, self.rng))
