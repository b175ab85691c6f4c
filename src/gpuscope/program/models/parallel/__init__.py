"""Ready-made parallel training of decoder models, built on PyTorch's own parallelism.

`size` says what the network is, `options` how its work is split over ranks, `software` which
kernels and habits the training code has; `build` makes one rank's step of it, `stages` the parts
of a pipeline. What needs torch is imported when a step is made.
"""
