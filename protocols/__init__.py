"""protocols of jgroups_py. Always import ``jgroups_py.protocols``.

May import: stack and what is below; a protocol imports no other protocol.
Imported by: driver and what is above.
"""

if __name__ != "jgroups_py.protocols":
    raise ImportError("import jgroups_py.protocols")
