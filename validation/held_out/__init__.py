"""A random set of kernels that no constant has seen: what is drawn, and how each is called.

One file a kind. Each has `draw(rng)`, which gives the parameters of its points, and
`build(params)`, which allocates on "cuda" and returns the call: on a GPU it is timed
(`validation/held_out_kernels.py`), without one it is captured and predicted
(`validation/kinds.py`). So both see the very same call.

The split, fixed before the first measurement: a point whose `crc32(kind + params)` is divisible by
three is *seen* (errors may be looked at one by one, to find what physics a model lacks); all others
are *sealed* (only sums over many of them are ever looked at). No constant is fitted to either.
"""
