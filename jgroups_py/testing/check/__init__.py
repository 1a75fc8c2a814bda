"""The properties of any run: checkers and the oracle of RELAY.

May import: testing.sim, protocols and the rooms below.
Imported by: testing.explorer, drill, the kit.
"""
