"""Runs pytest on the paths given: the main program of BUILD's tests."""

import sys

import pytest

# Workers of some contexts import the main module again; it must not test then.
if __name__ == "__main__":
    sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
