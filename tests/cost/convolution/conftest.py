"""Operators for tests of products and of memory-bound kernels: `tests/cost`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
