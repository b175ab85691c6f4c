"""PyTorch's flight recorder: who is missing in a collective that hangs."""
