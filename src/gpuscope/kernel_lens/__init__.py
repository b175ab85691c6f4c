"""The kernel lens: run a Triton or Numba-CUDA kernel on the CPU and see what its warps ask for."""
