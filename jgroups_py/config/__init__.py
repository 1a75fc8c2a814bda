"""Stack files: reads and writes them, makes typed settings of them, and computes detection times.

May import: errors, units.
Imported by: stack and everything above.
"""
