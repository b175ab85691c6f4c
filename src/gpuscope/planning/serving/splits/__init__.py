"""How the devices of a server's replica share a model beside tensor parallelism: one file a way."""

from gpuscope.planning.serving.splits.registry import SPLITS, Split

__all__ = ["SPLITS", "Split"]
