"""Live and backup: the backup repeats the operations of the live node, each object's changes in the live order, and the rest in parallel
(seed 002).

May import: channel and what is below. The order itself (tickets, ledger, applier) is without I/O.
"""
