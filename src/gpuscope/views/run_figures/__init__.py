"""The figures of a run, or of several, as blocks: for `--figures DIR` and the notebook.

`figures` puts them together; the page and the terminal take single ones (`account`).
"""
