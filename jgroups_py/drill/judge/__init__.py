"""The verdict, from what applications sent, got and were told.

May import: drill.file, drill.log and what is below.
Imported by: drill.report, tools, spark.
"""
