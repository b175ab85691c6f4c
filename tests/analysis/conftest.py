"""Makes `builders` importable from the tests below this folder."""
