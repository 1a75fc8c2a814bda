"""Makes ``long_tests`` importable from the tests here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
