"""The verdict, from the logs of applications: messages sent and received, and answers.

May import: drill.file, drill.log and the rooms below.
Imported by: drill.report, tools, spark.
"""
