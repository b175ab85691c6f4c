"""Operators for tests of products and of memory-bound kernels, for the rooms of `tests/cost`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
