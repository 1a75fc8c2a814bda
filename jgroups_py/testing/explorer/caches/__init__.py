"""Caches with concurrent callers at all members, in virtual time: a schedule is drawn, played, judged.

    schedule.py   what happens in one run, as plain data
    draw.py       a schedule of a seed
    stage.py      members on a network with faults; trio under a clock that jumps
    callers.py    what callers do; each call is one operation of the history
    places.py     which views each member had, and which line of them went on
    promises.py   what a back end promises of an operation (design/linearizability.md)
    play.py       one run, judged
    back_end.py   what the lab needs of it

``explore.many`` and ``jgroups-py dev simulate`` run it as profiles ``cache``, ``cache-local``,
``cache-replicated``, ``cache-buddy`` and ``cache-sessions``.

May import: cache, testing.sim, testing.histories and the lab.
Imported by: back_ends.py.
"""
