"""Existing plans of trainings: one small file a framework, registering itself."""
