"""Every random generator that a training script draws from, set to one seed."""

from __future__ import annotations

import random
import sys
from typing import Any

__all__ = ["seed_all"]


def seed_all(seed: int) -> None:
    """Seed Python's, NumPy's and PyTorch's generators, all devices' included."""
    random.seed(seed)
    if "numpy" in sys.modules:
        import numpy as np

        np.random.seed(seed % 2**32)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
