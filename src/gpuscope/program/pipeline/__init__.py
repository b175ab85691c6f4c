"""Pipelines: which rank runs what, when, and the programs that come of it."""
