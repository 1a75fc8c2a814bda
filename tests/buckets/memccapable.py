"""Runs libmemcached's memccapable (memcapable) against a server of ours. All of its tests of the text protocol pass but those of flush_all."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from served import served

from jgroups_py.buckets.items import MemoryStore
from jgroups_py.buckets.memcached import MemcachedServer

REFUSED = {"ascii flush", "ascii flush noreply"}


def main() -> int:
    program = shutil.which("memccapable") or shutil.which("memcapable")
    if program is None:
        print("skipped: memccapable is not installed (Debian, Ubuntu: libmemcached-tools)")
        return 0
    with served(lambda: MemcachedServer(MemoryStore()).serve) as (host, port):
        done = subprocess.run(
            [program, "-a", "-h", host, "-p", str(port), "-t", "5"],
            capture_output=True,
            text=True,
            timeout=120,
        )
    sys.stdout.write(done.stdout)
    names = set(re.findall(r"ascii [a-z]+(?: noreply)?(?= {2,})", done.stdout))
    passed = set(re.findall(r"(ascii [a-z]+(?: noreply)?) +\[pass\]", done.stdout))
    print(f"{len(passed)} of {len(names)} passed; flush_all is refused")
    return 0 if len(names) == 27 and names - passed == REFUSED else 1


if __name__ == "__main__":
    sys.exit(main())
