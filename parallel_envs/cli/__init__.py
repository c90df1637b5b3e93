"""The command line. Nothing else in the package reads flags or prints."""
