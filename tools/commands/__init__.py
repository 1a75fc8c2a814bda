"""The commands of users, one file each.

May import: everything.
Imported by: tools.cli, by name.
"""
