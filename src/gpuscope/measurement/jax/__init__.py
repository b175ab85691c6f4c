"""JAX steps really run: the device as JAX sees it, a step that is fed its own results, the run."""
