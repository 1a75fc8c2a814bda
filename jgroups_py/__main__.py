"""``python -m jgroups_py`` is ``jgroups-py``."""

from jgroups_py.tools.start import main

main()
