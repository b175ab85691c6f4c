"""ONNX operators in PyTorch's words: one file a kind, each registering its own."""
