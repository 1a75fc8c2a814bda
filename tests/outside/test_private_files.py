"""Files with values of the application are readable by their owner alone, for any umask."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

RUN = """
import json, os, sys
os.umask(0)
os.chdir(sys.argv[1])
from jgroups_py.blocking import open_tree_cache
from jgroups_py.tools.cli import main
with open_tree_cache("passivation.xml", properties={"cache.file": "link.db"}) as cache:
    cache.put("/users/7", "name", "Ada")
    cache.evict("/users/7")
    while_open = sorted(os.listdir())
    modes = {name: os.stat(name).st_mode & 0o777 for name in while_open if os.path.exists(name)}
try:
    main(["cache", "--cache", "local.xml", "--json", "out.json", "put", "/a", "b", "c"])
finally:
    modes |= {name: os.stat(name).st_mode & 0o777 for name in os.listdir()}
    print(json.dumps(modes))
"""
KEEP = """
import sys
from jgroups_py.blocking import open_tree_cache
with open_tree_cache("passivation.xml", properties={"cache.file": sys.argv[1]}):
    pass
"""


def run(code: str, argument: Path) -> str:
    command = [sys.executable, "-c", code, str(argument)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1] if done.stdout else ""


def test_stores_locks_and_output_are_readable_for_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    modes = json.loads(run(RUN, tmp_path))
    assert {"store.db", "store.db-wal", "store.db-lock", "out.json"} <= set(modes)
    assert {name for name, mode in modes.items() if mode != 0o600} == set()


def test_the_mode_of_a_store_that_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "shared.db"
    file.touch()
    file.chmod(0o640)
    run(KEEP, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
