"""stacks of jgroups_py. Always import ``jgroups_py.stacks``.

Stack files and drills; no code. May import: nothing. config.file and drill.file read them.
"""

if __name__ != "jgroups_py.stacks":
    raise ImportError("import jgroups_py.stacks")
