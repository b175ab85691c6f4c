"""One file a kind of XLA instruction: what the device runs for it."""
