"""Settings of the tests that are no setting of pytest."""

import os
import signal

import pytest
from hypothesis import Phase, settings

# A shell that starts the tests in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about the machine than about the code.
settings.register_profile("here", deadline=None, print_blob=True)
# The same examples each time; and nobody waits there for the smallest that fails.
settings.register_profile(
    "ci",
    settings.get_profile("here"),
    database=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--drill-steps",
        type=int,
        default=750,
        help="steps of batches in tests/fault_drill; 10000 is a long drill",
    )
