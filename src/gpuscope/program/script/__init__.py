"""Whole scripts: run as `python` runs them, their steps found, nothing left behind."""
