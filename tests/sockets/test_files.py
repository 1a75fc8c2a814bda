"""The last descriptors of a process are not given to connections from outside."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.sockets
RUN = """
import json, random, resource, socket, trio
from jgroups_py.driver import SocketTransport, files
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Accepted, Bind, Bound, Crowded
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
class Owner:
    def __init__(self):
        self.heard = []
    def on_input(self, item):
        self.heard.append(item)
        if isinstance(item, Accepted):
            machine.route(item.handle, self)
machine, owner = Machine("m", random=random.Random(1)), Owner()
driver = SocketTransport().driver(machine)
async def main():
    async with trio.open_nursery() as nursery:
        await nursery.start(driver.run)
        machine.open(owner, Bind(1, "tcp", "127.0.0.1", 0))
        driver.wake()
        while not owner.heard:
            await trio.sleep(0.01)
        place = owner.heard[0].local
        held = [open("/dev/null") for _ in range(40)]
        mine = [socket.create_connection(place) for _ in range(20)]
        while len(owner.heard) < 21:
            await trio.sleep(0.01)
        kinds = [type(item).__name__ for item in owner.heard]
        more = [open("/dev/null") for _ in range(10)]
        print(json.dumps([machine.files_max, kinds.count("Accepted"), kinds.count("Crowded")]))
        nursery.cancel_scope.cancel()
trio.run(main)
"""


def test_connections_stop_where_the_last_descriptors_begin() -> None:
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    files, accepted, crowded = json.loads(done.stdout)
    assert files == 100
    assert accepted + crowded == 20
    assert accepted > 0 and crowded > 0
