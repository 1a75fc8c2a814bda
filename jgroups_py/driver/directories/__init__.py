"""Directories outside the group: each kind in a file of its own, asked in threads.

May import: stack and the rooms below.
Imported by: driver, and the simulator for ``in_memory``.
"""

from jgroups_py.driver.directories.asking import Directory, DirectoryProblem, answer_of

__all__ = ["Directory", "DirectoryProblem", "answer_of"]
