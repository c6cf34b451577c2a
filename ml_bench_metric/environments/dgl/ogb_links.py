"""Makes the folders in which ogb looks for its data sets lead to those that its archives unpack to."""

import os
from pathlib import Path

FOLDER = Path("/workspace/dgl/examples/pytorch/correct_and_smooth/dataset")

FOLDER.mkdir(parents=True)
for name in ("arxiv", "products"):
    (FOLDER / f"ogbn_{name}").symlink_to(name)
# A candidate may write there, as in the rest of the checkout.
for folder in (FOLDER, *FOLDER.parents[:5]):
    os.chown(folder, 1000, 1000)
