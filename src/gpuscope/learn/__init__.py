"""Lessons and claims: what newcomers read about GPUs, shown and checked with the real models."""
