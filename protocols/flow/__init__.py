"""Flow control by credits: MFC, UFC.

May import: stack and what is below.
Imported by: nobody; found by name in registry.py.
"""
