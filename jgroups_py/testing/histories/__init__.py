"""Histories of concurrent callers: operations with call and return times, and a check of their results.

    operation.py    the parts of a history; the base of a model
    search.py       is there an order in which every operation has the result it had?
    check.py        the verdict on a history: its parts searched one by one
    explain.py      the smallest history that still has no order, as a time line
    nodes.py        a model of a tree cache
    register.py     a model of registers by name

It imports no other module of the project; ``explore``, ``drill`` and ``testing`` import it. Users take it from
``jgroups_py.testing``.

May import: the rooms below the simulator.
Imported by: testing, testing.explorer.
"""
