"""Collectives: what one call takes on the links of its group.

`model` is the kernel of each call, `messages` that between two ranks, `symmetric` those in memory
that all ranks see. `group` says which links the ranks use, `types` what a cost is made of, `ways`
which algorithms there are (`switched`, `torus`), `tuner` which of them NCCL takes, `tuning` what
was measured on the machine, `units` which multiprocessors a kernel holds meanwhile.
"""
