"""Profile what was not written for it: an unmodified script, or a part of a notebook."""
