"""The host: `model` is PyTorch's eager step; `compiled` code, an inference `engine`, XLA's loop
(`xla`) and `arithmetic` on the CPU's own tensors cost it less or more.
"""
