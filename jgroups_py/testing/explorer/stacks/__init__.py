"""Whole simulated clusters of any stack: schedules of members, traffic and faults.

    schedule.py   the events of one run, as plain data
    draw.py       a schedule of a seed; draw_stack.py and draw_faults.py draw its parts
    scene.py      members on a simulated network, and their applications
    faults.py     the effect of each fault; roles.py: the members that it hits
    play.py       one run: faults, then heal.py
    shared.py     registers that all members of a site share

May import: testing.check, testing.sim, testing.histories and the rooms below.
Imported by: testing.explorer, the kit.
"""
