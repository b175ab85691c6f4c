"""How an engine serves a model: requests, its scheduler, what each iteration costs, and metrics.

A predicted and a measured `Serving` are one type (`gpuscope.serving.result`): the simulator and the
load client make the same requests from the same seed, and `compare` sets both results side by side.
"""
