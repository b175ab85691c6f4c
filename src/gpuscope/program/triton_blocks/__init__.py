"""Triton kernels followed block by block, without a GPU and without Triton: what a launch moves."""
