"""The kernel lens: run a Triton or Numba-CUDA kernel on the CPU and see what its warps ask for.

`gs.lens("file.py:launch")`, or this package called, runs `gpuscope.lens.look.look`.
"""

from gpuscope.verb import make_callable

make_callable(__name__, "gpuscope.lens.look.look")
