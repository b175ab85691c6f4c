"""What speaks for or against a change: figures of a workload's step, its memory, its host."""
