"""Random schedules of buddy replication: its machine alone, and on whole simulated clusters.

    explore.py, draw.py, sites_draw.py   schedules, drawn while they run
    world.py, sites.py                   machines, and links between sites
    oracle.py, follower.py               the properties that must hold
    clusters.py                          the same on whole simulated clusters
    back_end.py                          the lab's back end

May import: buddy, testing.sim.
Imported by: tools.
"""
