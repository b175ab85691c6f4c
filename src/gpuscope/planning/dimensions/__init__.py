"""What a training's plan decides beside its layout: one file a dimension."""

from gpuscope.planning.dimensions.registry import DIMENSIONS, Dimension, tries_of

__all__ = ["DIMENSIONS", "Dimension", "tries_of"]
