"""Its folder is on the path, so that tests below it find `changed_cases`."""
