"""Which arguments of a batch suit an environment and a machine, by measurement."""
