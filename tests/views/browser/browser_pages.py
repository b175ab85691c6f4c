"""Names of the pages that the browser tests open."""

PAGE_NAMES = ("predicted", "ranks", "pair", "explanation", "serving", "plan", "book", "claims")
