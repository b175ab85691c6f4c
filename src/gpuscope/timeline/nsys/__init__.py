"""Reads SQLite recordings as a `Timeline`: `nsys export --type sqlite`, and rocprofv3's rocpd."""

from gpuscope.timeline.nsys.read import read_nsys

__all__ = ["read_nsys"]
