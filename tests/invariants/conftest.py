"""Makes the runs that the views' tests are built from importable here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "views"))
