"""Its folder is on the path, so that tests below it find `tiny_changes`."""
