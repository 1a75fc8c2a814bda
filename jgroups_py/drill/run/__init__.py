"""Runs a plan: in virtual time, or with one process for each member.

May import: drill.file, drill.log, testing.sim, cache, channel and the rooms below.
Imported by: tools, spark.
"""
