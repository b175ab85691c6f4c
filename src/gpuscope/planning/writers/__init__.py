"""What starts a plan: one file a framework."""

from gpuscope.planning.writers.registry import WRITERS, writer

__all__ = ["WRITERS", "writer"]
