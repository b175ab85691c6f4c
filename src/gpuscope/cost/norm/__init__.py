"""Norms: `layer` (and RMS), `group` and `batch`, the last with the channels innermost
(`batch_last`, cuDNN's `batch_persistent`); `channel_walk` and `channel_blocks` are the walks that
they share.
"""
