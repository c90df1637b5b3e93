"""Compares ways of stepping many environments; see `parallel-envs bench`."""
