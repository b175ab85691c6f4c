"""What is run: a program captured under fakes, from code, a script, or a built-in model."""
