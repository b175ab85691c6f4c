"""Reads what `nsys export --type sqlite` writes: an Nsight Systems recording as a `Timeline`."""

from gpuscope.timeline.nsys.read import read_nsys

__all__ = ["read_nsys"]
