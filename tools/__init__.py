"""tools of jgroups_py. Always import ``jgroups_py.tools``.

May import: everything below.
Imported by: nothing.
"""

if __name__ != "jgroups_py.tools":
    raise ImportError("import jgroups_py.tools")
