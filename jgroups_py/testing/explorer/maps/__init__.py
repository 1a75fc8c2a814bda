"""Random histories of maps on several hosts: replicas alone, and on whole simulated clusters.

    world.py      hosts with links, in virtual time
    schedule.py   settings and steps, drawn from a seed, played and judged
    clusters.py   the same over the real stack, simulated
    traffic.py    what a put costs on the wire
    back_end.py   the lab's back end

May import: maps, testing.sim.
Imported by: tools.
"""
