"""What to run a training on, and how: candidates, a quick score, the best of them simulated."""
