"""protocols of jgroups_py. Always import ``jgroups_py.protocols``."""

if __name__ != "jgroups_py.protocols":
    raise ImportError("import jgroups_py.protocols")
