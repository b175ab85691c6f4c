"""What may be wrong with a recording: one file a group of checks."""
