"""Makes JGroups' bytes of values, and values of bytes. The header catalogue is in headers.py, packets are in packet.py.

May import: values, errors.
Imported by: everything above.
"""
