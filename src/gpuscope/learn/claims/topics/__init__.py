"""Claims by topic: one file each, with a `BOOK` that collects them."""
