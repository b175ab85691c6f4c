"""What translated CUDA C calls where C and Python differ."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def index(at: Any) -> int:
    """An index; Python counts negative ones from the end.

    Raises:
        IndexError: it is negative.
    """
    if at < 0:
        raise IndexError(f"index {int(at)} is before the begin of the array")
    return int(at)


def moved(array: Any, at: Any) -> Any:
    """`array + at`."""
    return array[index(at) :]


def whole(a: Any, b: Any) -> int:
    """C's division of whole numbers: towards zero."""
    found: int = abs(int(a)) // abs(int(b))
    return found if (a < 0) == (b < 0) else -found


def quotient(a: Any, b: Any) -> float:
    """C's division of floating-point numbers."""
    if b:
        return float(a) / float(b)
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a)


def remainder(a: Any, b: Any) -> int:
    """C's remainder: of the sign of the first."""
    return int(a) - whole(a, b) * int(b)


def unsigned(value: Any, bits: int) -> int:
    """A value as an unsigned number of so many bits."""
    return int(value) & ((1 << bits) - 1)


def size(dtype: str) -> int:
    """`sizeof`."""
    return int(np.dtype(dtype).itemsize)


def _of_float(function: Any) -> Any:
    def safe(*given: Any) -> float:
        try:
            return float(function(*map(float, given)))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return safe


sqrt_, exp_, sin_, cos_ = map(_of_float, (math.sqrt, math.exp, math.sin, math.cos))
tan_, tanh_, erf_, pow_ = map(_of_float, (math.tan, math.tanh, math.erf, math.pow))
log_, log2_, exp2_ = map(_of_float, (math.log, math.log2, math.exp2))
rsqrt_ = _of_float(lambda x: 1 / math.sqrt(x) if x else math.inf)
fabs_, floor_, ceil_, round_ = map(_of_float, (math.fabs, math.floor, math.ceil, round))
fma_ = _of_float(lambda a, b, c: a * b + c)
saturate_ = _of_float(lambda x: min(max(x, 0.0), 1.0))
abs_, min_, max_, fmin_, fmax_ = abs, min, max, min, max
fdividef_ = quotient
