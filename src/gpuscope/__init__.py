"""Open the GPU black box: predict and explain any PyTorch workload on any accelerator."""

__version__ = "0.1.0"
