"""Commands that only developers of this project need.

May import: everything.
Imported by: tools.cli, by name.
"""
