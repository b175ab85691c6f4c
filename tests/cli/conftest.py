"""Makes the runs of the views' tests importable here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "views"))
