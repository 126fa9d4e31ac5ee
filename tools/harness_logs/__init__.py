"""Let other programs write logs for the tests, once, each in an environment of its own."""
