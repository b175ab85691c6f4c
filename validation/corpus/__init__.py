"""A corpus of programs: which are captured and predicted, and how near to a real run."""
