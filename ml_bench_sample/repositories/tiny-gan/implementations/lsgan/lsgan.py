"""Least-squares GAN; its learning rate can decay over the epochs."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gan.datasets import DATASETS  # noqa: E402
from gan.files import save_generator  # noqa: E402
from gan.training import Trainer  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n_epochs", type=int, default=30, help="number of epochs")
    parser.add_argument("--batch_size", type=int, default=64, help="samples per batch")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate of the first epoch")
    parser.add_argument("--decay", type=float, default=1.0, help="factor on the learning rate after every epoch")
    parser.add_argument("--hidden", type=int, default=32, help="width of the hidden layers")
    parser.add_argument("--dataset", choices=sorted(DATASETS), default="grid")
    parser.add_argument("--checkpoint", type=Path, default=Path("lsgan.npz"), help="where the generator is saved")
    opt = parser.parse_args()

    trainer = Trainer(opt.dataset, "lsgan", opt.lr, hidden=opt.hidden, batch_size=opt.batch_size)
    for epoch in range(1, opt.n_epochs + 1):
        critic, generator = trainer.epoch()
        trainer.critic_optimiser.lr *= opt.decay
        trainer.generator_optimiser.lr *= opt.decay
        if epoch % 10 == 0 or epoch == opt.n_epochs:
            print(f"[Epoch {epoch}/{opt.n_epochs}] [D loss: {critic:.5f}] [G loss: {generator:.5f}]")
    save_generator(opt.checkpoint, trainer.generator, dataset=opt.dataset, loss="lsgan", epochs=opt.n_epochs)
    print(f"distance {trainer.distance():.3f}, generator in {opt.checkpoint}")


if __name__ == "__main__":
    main()
