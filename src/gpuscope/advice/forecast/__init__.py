"""What changes would do, predicted: one by one, combined, and as the best set."""
