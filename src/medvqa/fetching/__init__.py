"""Bring data sets from their owners to the data folder, for `medvqa fetch`.

`fetch` works through the files of `Benchmark.origin`. It compares present files (`manifest`), asks for the address of a
missing one (`hub`, `pmc`), receives it (`web`, `parts`) and unpacks it (`archives`). Servers and archives are not
trusted: nothing is written outside of the data folder, and nothing without a limit.
"""
