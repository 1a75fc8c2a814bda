"""Makes ``account`` and the schedules of other folders importable from the tests here."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
NEAR = ("buddy", "relay", "protocols", "protocols/gms", "protocols/nakack2", "transports")
for folder in (*(HERE.parent / name for name in NEAR), HERE):
    sys.path.insert(0, str(folder))
