"""Runs the tests beside it: the main program of each test in BUILD."""

import os
import shlex
import sys

import pytest

# Workers of some contexts import the main module again; it must not test then.
if __name__ == "__main__":
    # Not left to what tests run: those are programs with tests of their own.
    options = shlex.split(os.environ.pop("PYTEST_ADDOPTS", ""))
    sys.exit(pytest.main(["-p", "no:cacheprovider", *options]))
