"""Security as JGroups has it: SYM_ENCRYPT encrypts the payloads of messages with a key from a keystore, ASYM_ENCRYPT with
a key that the coordinator makes. AUTH lets only members join that show a good token.

May import: cryptography, protocols.membership.gms.wire, stack and what is below.
Imported by: no module; registry.py finds them by name.
"""
