"""The wheel's copy of benchmark_tests, models and fixtures: `pytest --pyargs medvqa.suite.benchmark_tests`."""
