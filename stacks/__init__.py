"""stacks of jgroups_py. Always import ``jgroups_py.stacks``."""

if __name__ != "jgroups_py.stacks":
    raise ImportError("import jgroups_py.stacks")
