"""What the name of a device kernel says, piece by piece: one small file a library.

A *reader* takes a symbol and returns a `KernelName`, or None where the symbol is not of its
library. Readers register themselves; put a new one in this folder.
"""

from gpuscope.explanation.kernel_names.registry import known_examples, read_kernel_name
from gpuscope.explanation.kernel_names.types import FIELDS, KernelName, Piece

__all__ = ["FIELDS", "KernelName", "Piece", "known_examples", "read_kernel_name"]
