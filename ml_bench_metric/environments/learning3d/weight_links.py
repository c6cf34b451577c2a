"""Makes learning3d's default paths of weights lead to its weights.

They are `learning3d/pretrained/…`, for a program beside the checkout. The examples are in it: most of them change to
the checkout's folder, test_flownet.py stays in its own.
"""

import os
from pathlib import Path

CHECKOUT = Path("/workspace/learning3d")

examples = CHECKOUT / "examples"
examples.mkdir(parents=True)
(CHECKOUT / "learning3d").symlink_to(".")
(examples / "learning3d").symlink_to("..")
# A candidate may write there, as in the rest of the checkout.
for folder in (CHECKOUT, examples):
    os.chown(folder, 1000, 1000)
