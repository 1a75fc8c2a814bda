"""Makes JGroups' bytes of values, and values of bytes. The header catalogue is in headers.py, packets are made in packing.py and read in packet.py.

May import: values, errors.
Imported by: everything above.
"""
