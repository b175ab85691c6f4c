"""JAX functions as programs: traced on the CPU, compiled by XLA's own compiler for the GPU.

`lowering` traces a jitted function to StableHLO without running it, `compiling` has XLA compile
that for a GPU that is not there, `hlo` reads the optimised module, `executable` turns it into the
operators that the device runs (one file a kind of instruction), and `workload` is what `predict`
captures.
"""
