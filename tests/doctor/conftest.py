"""Makes the builders of machines in this folder importable from the folders below it."""
