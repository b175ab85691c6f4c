"""What changes do to a model, a loss, an optimizer or a whole step."""
