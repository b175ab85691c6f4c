"""Attention: forward, backward, decoding.

`model` is what the operators become, `encoders` what plain encoders launch beside them. `choice`
says whose kernel PyTorch runs, `tiles` which pairs of queries and keys it computes, `rates` what of
the machine it reaches, `decode` how one query's keys are split, `plans` what cuDNN prepares at
first sight, `helpers` the small kernels around it.
"""
