"""Makes the folders of PyTorch-GAN's data sets lead to what their downloads unpack to.

The repository's script moves the folders trainA, trainB, testA and testB of a download; the loader of MNIST-M looks for
MNIST in the folder `data` of the example that runs, and makes the folder of its results only where it downloads.
"""

import os
from pathlib import Path

CHECKOUT = Path("/workspace/PyTorch-GAN")

made = [CHECKOUT / "data" / "mnistm" / "processed"]
links: list[tuple[Path, str]] = []
for name in ("monet2photo", "apple2orange"):
    for part in ("train", "test"):
        folder = CHECKOUT / "data" / name / part
        made.append(folder)
        links += ((folder / side, f"../{part}{side}") for side in "AB")
for example in ("cogan", "pixelda"):
    folder = CHECKOUT / "implementations" / example
    made.append(folder)
    links.append((folder / "data", "../../data/mnist"))

for folder in made:
    folder.mkdir(parents=True, exist_ok=True)
for link, target in links:
    link.symlink_to(target)
# A candidate may write there, as in the rest of the checkout.
for folder in {CHECKOUT, *(folder for path in made for folder in (path, *path.parents) if CHECKOUT in folder.parents)}:
    os.chown(folder, 1000, 1000)
