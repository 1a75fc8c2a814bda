"""Rates beside Java JGroups and a mesh of ZeroMQ: the same measurement for each, in turns within one run.

May import: tools.bench and what is below.
Imported by: nothing.
"""
