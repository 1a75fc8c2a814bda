"""``python -m jgroups_py.tools`` is ``jgroups-py``."""

from jgroups_py.tools.start import main

main()
