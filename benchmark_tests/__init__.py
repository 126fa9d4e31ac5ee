"""One test per benchmark; also run by `pytest --pyargs medvqa.suite.benchmark_tests`."""
