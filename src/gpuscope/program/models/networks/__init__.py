"""Architectures in plain torch, each the published one, parameter for parameter."""
