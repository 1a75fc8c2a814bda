"""Benchmarks: `python -m jgroups_py.tools.bench.NAME`.

May import: everything.
Imported by: nobody.
"""
