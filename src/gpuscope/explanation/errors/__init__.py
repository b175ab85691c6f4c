"""What an error message says: tables of known messages, and readers of those that need more.

See `known` for the tables. A reader takes a `Log` and returns a `Diagnosis`, or None where the text
is not of its kind.
"""

from gpuscope.explanation.errors.known import diagnose
from gpuscope.explanation.errors.log import Log
from gpuscope.explanation.errors.types import Diagnosis

__all__ = ["Diagnosis", "Log", "diagnose"]
