"""What turns a model into a step: precision, optimizers, caches, steps. Imports torch."""
