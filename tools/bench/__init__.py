"""Benchmarks: `python -m jgroups_py.tools.bench.NAME`.

May import: all rooms.
Imported by: no other room.
"""
