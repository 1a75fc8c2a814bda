"""Caches with concurrent callers at all members, in virtual time: a schedule is drawn, played, judged.

    schedule.py   the events of one run, as plain data
    draw.py       a schedule of a seed
    stage.py      members on a network with faults; trio under a clock that jumps
    callers.py    the calls of callers; each is one operation of the history
    places.py     the views that each member had, and the line of them that went on
    promises.py   the promises of a back end about an operation (design/linearizability.md)
    play.py       one run, judged
    back_end.py   the lab's back end

``explore.many`` and ``jgroups-py dev simulate`` run it as profiles ``cache``, ``cache-local``,
``cache-replicated``, ``cache-buddy`` and ``cache-sessions``.

May import: cache, testing.sim, testing.histories and the lab.
Imported by: back_ends.py.
"""
