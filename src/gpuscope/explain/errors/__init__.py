"""What an error message says: one small file a kind of error, each registering itself.

A *reader* takes a `Log` and returns a `Diagnosis`, or None where the text is not of its kind.
"""

from gpuscope.explain.errors.log import Log
from gpuscope.explain.errors.registry import diagnose
from gpuscope.explain.errors.types import Diagnosis

__all__ = ["Diagnosis", "Log", "diagnose"]
