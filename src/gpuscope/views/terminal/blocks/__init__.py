"""Blocks of an explanation in the terminal: one small file a block; `render` takes any."""
