"""Names of the pages that the browser tests open."""

PAGE_NAMES = ("predicted", "ranks", "pair", "explanation", "serving", "book", "claims")
