"""By index: `gather` reads, `scatter` and `index_sums` write and add, `embedding_gradient` adds
rows; `sort` (and its `sort_workspace`), `membership` and `coalesce` order what they find.
"""
