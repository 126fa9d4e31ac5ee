"""Backends, benchmarks and metrics of one's own are returned from hooks here; docs/models.md has examples."""
