"""Stack files: reading and writing them, typed settings, what they mean for detection time.

May import: errors, units.
Imported by: stack and everything above.
"""
