"""Train a GAN on a toy data set and keep its generator."""

import argparse
from pathlib import Path

from gan.datasets import DATASETS
from gan.files import save_generator, save_picture
from gan.losses import LOSSES
from gan.training import Trainer


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=sorted(DATASETS), default="ring")
    parser.add_argument("--loss", choices=sorted(LOSSES), default="gan")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate of Adam")
    parser.add_argument("--latent-dim", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=32, help="width of the hidden layers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out-dir", type=Path, default=Path("outputs"))
    parser.add_argument("--sample-interval", type=int, default=0, help="write a picture every so many epochs")
    parser.add_argument("--quiet", action="store_true", help="print the last line only")
    return parser.parse_args()


def main():
    args = parse()
    clip = 0.1 if args.loss == "wgan" else None
    trainer = Trainer(
        args.dataset, args.loss, args.lr, args.latent_dim, args.hidden, args.batch_size, clip=clip, seed=args.seed
    )
    start = trainer.distance()
    for epoch in range(1, args.epochs + 1):
        critic, generator = trainer.epoch()
        if not args.quiet and (epoch % 10 == 0 or epoch == args.epochs):
            print(f"epoch {epoch:4d}  critic {critic:.4f}  generator {generator:.4f}")
        if args.sample_interval and epoch % args.sample_interval == 0:
            samples = trainer.generator.forward(trainer.noise(2000))
            save_picture(args.out_dir / "images" / f"{epoch:05d}.pgm", samples)
    end = trainer.distance()
    target = args.out_dir / "generator.npz"
    save_generator(target, trainer.generator, dataset=args.dataset, loss=args.loss, epochs=args.epochs)
    print(f"distance {start:.3f} -> {end:.3f}, generator saved to {target}")


if __name__ == "__main__":
    main()
