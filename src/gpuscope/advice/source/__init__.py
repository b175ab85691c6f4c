"""The user's code, read and rewritten: where an edit goes, what may change, patches."""
