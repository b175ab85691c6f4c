"""One thing, deeply: what a product, a collective, a transfer or a message really does."""
