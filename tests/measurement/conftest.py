"""Makes `measure_builders` importable from the tests below this folder."""
