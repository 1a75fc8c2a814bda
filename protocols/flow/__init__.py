"""Flow control by credits: MFC, UFC.

May import: stack and what is below.
Imported by: no module; registry.py finds them by name.
"""
