"""Makes torchvision importable beside a CPU build of torch.

The package index has torchvision as a CUDA build only. Its compiled operators cannot be loaded beside `torch+cpu`, and
without them its import ends with "operator torchvision::nms does not exist": it registers shapes for two operators that
nobody has defined. Here they get a definition without an implementation, and the useless libraries go. What is lost are
the compiled operators (`torchvision.ops.nms` and the like) and the image decoders of `torchvision.io`.
"""

import importlib.util
import pathlib
import shutil
import subprocess
import sys

if subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True).returncode == 0:
    print("torchvision imports as it is")
    sys.exit()

found = importlib.util.find_spec("torchvision")
if found is None or found.origin is None:
    sys.exit("torchvision is not installed")
folder = pathlib.Path(found.origin).parent
extension = folder / "extension.py"
text = extension.read_text()
anchor = "\ndef _assert_has_ops():"
if text.count(anchor) != 1:
    sys.exit(f"{extension} is not the file that this script knows; its version of torchvision needs another way")
definition = """
if not _has_ops():
    _cpu_operators = torch.library.Library("torchvision", "FRAGMENT")
    for _cpu_operator in ("nms", "qnms"):
        _cpu_operators.define(f"{_cpu_operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

"""
extension.write_text(text.replace(anchor, definition + anchor))
for library in (*folder.glob("_C*.so"), *folder.glob("image*.so")):
    library.unlink()
shutil.rmtree(folder.with_name("torchvision.libs"), ignore_errors=True)
