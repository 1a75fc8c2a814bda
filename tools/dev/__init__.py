"""Commands that only developers of this project need.

May import: all rooms.
Imported by: tools.cli, by name.
"""
