"""tools of jgroups_py. Always import ``jgroups_py.tools``.

May import: all rooms below.
Imported by: nothing.
"""

if __name__ != "jgroups_py.tools":
    raise ImportError("import jgroups_py.tools")
