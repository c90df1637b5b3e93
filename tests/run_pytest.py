"""Runs the tests beside it: the main program of each test in BUILD."""

import sys

import pytest

# Workers of some contexts import the main module again; it must not test then.
if __name__ == "__main__":
    sys.exit(pytest.main(["-p", "no:cacheprovider"]))
