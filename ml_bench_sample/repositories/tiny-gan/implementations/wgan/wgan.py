"""Wasserstein GAN with weight clipping."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gan.datasets import DATASETS  # noqa: E402
from gan.files import save_picture  # noqa: E402
from gan.training import Trainer  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n_epochs", type=int, default=20, help="number of epochs")
    parser.add_argument("--batch_size", type=int, default=64, help="samples per batch")
    parser.add_argument("--lr", type=float, default=0.002, help="learning rate")
    parser.add_argument("--latent_dim", type=int, default=2, help="size of the noise")
    parser.add_argument("--n_critic", type=int, default=5, help="steps of the critic per step of the generator")
    parser.add_argument("--clip_value", type=float, default=0.1, help="bound of the critic's weights")
    parser.add_argument("--dataset", choices=sorted(DATASETS), default="ring")
    opt = parser.parse_args()

    trainer = Trainer(
        opt.dataset,
        "wgan",
        opt.lr,
        opt.latent_dim,
        batch_size=opt.batch_size,
        n_critic=opt.n_critic,
        clip=opt.clip_value,
    )
    for epoch in range(1, opt.n_epochs + 1):
        critic, generator = trainer.epoch()
        if epoch % 5 == 0 or epoch == opt.n_epochs:
            print(f"[Epoch {epoch}/{opt.n_epochs}] [C loss: {critic:.5f}] [G loss: {generator:.5f}]")
    picture = Path("images") / f"wgan_{opt.n_epochs:04d}.pgm"
    save_picture(picture, trainer.generator.forward(trainer.noise(2000)))
    print(f"distance {trainer.distance():.3f}, picture in {picture}")


if __name__ == "__main__":
    main()
