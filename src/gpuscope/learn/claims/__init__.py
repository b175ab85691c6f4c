"""Statements that articles make about GPUs, each held against gpuscope's own models."""
