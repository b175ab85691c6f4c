"""What to serve on, and how: tensor parallelism, replicas, dtypes, budget of an iteration."""
