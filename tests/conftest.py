"""Settings of the tests that are no setting of pytest."""

import hypothesis

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.load_profile("default")
