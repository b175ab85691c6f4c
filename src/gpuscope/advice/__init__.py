"""What to change, how much it gains, and whether it did."""
