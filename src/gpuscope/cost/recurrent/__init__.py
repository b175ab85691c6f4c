"""Recurrent layers: `model` is cuDNN's, on several streams (`waves`) or in one kernel
(`persistent`); `cell` is one step by itself, `state_space` a Mamba-2 mixer.
"""
