"""A drill file and a seed become a plan.

May import: config and the rooms below.
Imported by: the rest of drill, tools, spark.
"""
