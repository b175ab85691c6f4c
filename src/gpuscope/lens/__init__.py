"""The kernel lens: run a Triton or Numba-CUDA kernel on the CPU and see what its warps ask for.

`gs.lens("file.py:launch")`, this package called, and `gpuscope.lens.look` are the same.
"""

from typing import Any

from gpuscope.verb import make_callable

make_callable(__name__, "gpuscope.lens.runner.look")


def __getattr__(name: str) -> Any:
    if name == "look":  # NumPy and the rest are imported when it is used
        from gpuscope.lens.runner import look

        return look
    raise AttributeError(f"module 'gpuscope.lens' has no attribute '{name}'")
