"""Medical visual question answering benchmarks as pytest suites."""

__version__ = "0.1.0"
