"""Reads traces of PyTorch's profiler (Kineto) and Chrome traces as a `Timeline`."""

from gpuscope.timeline.kineto.read import read_trace

__all__ = ["read_trace"]
