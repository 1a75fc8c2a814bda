"""Values to JGroups' bytes and back. The header catalogue is in headers.py, packets are in packet.py.

May import: values, errors.
Imported by: everything above.
"""
