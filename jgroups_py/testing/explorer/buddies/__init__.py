"""Random schedules of buddy replication: its machine alone, and on whole simulated clusters.

May import: buddy, testing.sim.
Imported by: tools.
"""
