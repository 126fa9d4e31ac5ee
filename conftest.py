"""Backends, benchmarks and metrics of your own go here: docs/your-questions.md and docs/models.md have examples."""
