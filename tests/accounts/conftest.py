"""Makes ``account`` and the schedules of the other areas importable from the tests here."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "buddy", HERE.parent / "relay"):
    sys.path.insert(0, str(folder))
