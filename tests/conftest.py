"""What every test may ask for."""

import os

from hypothesis import settings

pytest_plugins = ["tests.brokers.fixtures", "tests.consoles.fixtures"]

# A run by hand stays under a minute; HYPOTHESIS_EXAMPLES=1000 looks longer. A test that states a number keeps it.
settings.register_profile("veil", max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "60")), deadline=None)
settings.load_profile("veil")
