"""The bucket store in virtual time: members as machines, a network that delays, kills, cuts; its cases, drawn, played, judged.

May import: buckets, testing.explorer's frame. Imported by: the frame's list of back ends, tools, tests.
"""
