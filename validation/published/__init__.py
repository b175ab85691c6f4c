"""Other people's measured runs, predicted: which can be expressed, how, and how far off we are."""
