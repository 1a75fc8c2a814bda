"""The verdict for people: table, page, pictures.

May import: drill.judge, drill.file, drill.log.
Imported by: tools, spark, drill.soak.
"""
