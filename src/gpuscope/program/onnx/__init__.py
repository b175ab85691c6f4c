"""ONNX graphs as programs: read, changed as an engine changes them, run node by node under fakes.

`graph` reads a file, `axes` gives its dynamic axes their sizes, `engines` says what an engine does
with a graph and `fusing` does it, `network` runs the nodes with PyTorch's operators (one file a
kind in `operators/`), and `executing` turns what was captured into what the engine runs.
"""
