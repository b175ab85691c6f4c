"""One thing, deeply: what a product, a collective, a transfer or a message really does."""

from gpuscope.verb import make_callable

make_callable(__name__, "gpuscope.explain.registry.explain")
