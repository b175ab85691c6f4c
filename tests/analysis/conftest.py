"""Makes `builders` importable from the tests below this folder; no time limit an example."""

from hypothesis import settings

settings.register_profile("analysis", deadline=None)
settings.load_profile("analysis")
