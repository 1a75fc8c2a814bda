"""The commands of users, each in a file.

May import: all rooms.
Imported by: tools.cli, by name.
"""
