"""Libraries that are compared, one module each, imported in the process it runs in.

Each has `make(way, workload, num_envs, num_cores)`, which starts the library's
environments and returns a `Vector`. The library is imported at the top of its module,
so that its import does not count as start-up.
"""
