"""Exploring: schedules drawn from seeds, played in virtual time, judged, shrunk.

    schedule = draw(7, "membership")            # draw.py
    outcome = play(schedule)                    # play.py
    if outcome.problems:
        smaller = shrink(schedule, outcome)     # shrink.py

``many.py`` does that for many seeds on all cores; ``jgroups-py dev simulate`` is its command.

A schedule is plain data (``schedule.py``), so that it can be written to a file, read by people, made
smaller and played again: the same schedule gives the same run.
"""
