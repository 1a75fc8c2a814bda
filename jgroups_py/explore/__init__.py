"""Exploring: schedules drawn from seeds, played in virtual time, judged, shrunk.

    schedule = draw(7, "membership")
    outcome = play(schedule)
    if outcome.problems:
        smaller = shrink(schedule, outcome)

A schedule is plain data (``schedule.py``), so that it can be written to a file, read by people, made
smaller and played again: the same schedule gives the same run.
"""

from jgroups_py.explore.draw import PROFILES, draw
from jgroups_py.explore.play import Outcome, play
from jgroups_py.explore.schedule import Schedule
from jgroups_py.explore.shrink import shrink

__all__ = ["PROFILES", "Outcome", "Schedule", "draw", "play", "shrink"]
