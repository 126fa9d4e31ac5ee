"""Backends, benchmarks and metrics of your own go here: docs/own-questions.md and docs/models.md have examples."""
