"""Where changes take hold of running code: calls, constructors, names that are replaced."""
