"""What to fine-tune on, and how: method, sharding, micro-batch, recomputation, optimizer."""
