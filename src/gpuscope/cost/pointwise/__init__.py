"""Elementwise operators: `model` is what they become, `elementwise` which of PyTorch's kernels runs
and how dearly, `names` which operators they are; `random` numbers and dropout.
"""
