"""The synthetic graphs of the CPU kernels' tests serve these too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
