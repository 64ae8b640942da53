"""What every test may ask for."""

pytest_plugins = ["tests.brokers.fixtures", "tests.consoles.fixtures"]
