"""The commands of users, each in a file.

May import: everything.
Imported by: tools.cli, by name.
"""
