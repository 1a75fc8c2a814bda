"""The verdict, from the logs of applications: messages sent and received, and answers.

May import: drill.file, drill.log and what is below.
Imported by: drill.report, tools, spark.
"""
