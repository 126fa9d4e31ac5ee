"""Fetch benchmarks from their owners to the data folder."""
