"""Multi-master maps: dictionaries that every process of every host may write at any time, and that are the same everywhere a moment
later (seed 004).

A machine without I/O (replica.py) keeps the tables of several hosts equal.
"""
