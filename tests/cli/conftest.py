"""The replay of the loop's tests serves the commands' tests too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "swarm"))
