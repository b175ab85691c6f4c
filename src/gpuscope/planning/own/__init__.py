"""Plans of trainings that are a user's own code: batch, precision, techniques, sharing."""

from __future__ import annotations

__all__ = ["is_own"]


def is_own(target: str) -> bool:
    """Whether a target is a user's code: "train.py", "train.py:build"."""
    return target.endswith(".py") or target.rpartition(":")[0].endswith(".py")
