"""Processes and shared memory: arrays and callables, nothing of environments."""
