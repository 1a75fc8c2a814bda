"""python -m examples.broker --name A --port 61613"""

from __future__ import annotations

import argparse
import logging

import trio

from examples.broker.operations import KINDS, OPERATIONS, expire
from examples.broker.server import Broker
from jgroups_py.livebackup import Every, LiveBackupSettings, open_livebackup


async def broker(options: argparse.Namespace) -> None:
    settings = LiveBackupSettings(quorum=options.quorum, backups_min=options.backups_min)
    async with open_livebackup(
        options.stack,
        cluster=options.cluster,
        name=options.name,
        kinds=KINDS,
        operations=OPERATIONS,
        settings=settings,
        timers=[Every(1.0, expire)],
    ) as node:
        await Broker(node, options.port).serve()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.broker", description=__doc__)
    parser.add_argument("--name", help="the node's name")
    parser.add_argument("--port", type=int, default=61613, help="for STOMP clients, on 127.0.0.1")
    parser.add_argument("--cluster", default="broker")
    parser.add_argument("--stack", default="tcp.xml", help="the stack of the nodes")
    parser.add_argument("--quorum", type=int, default=0, help="the least nodes that may go on")
    parser.add_argument(
        "--backups-min",
        type=int,
        default=0,
        help="backups that must confirm; clients wait for them",
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("jgroups_py").setLevel(logging.WARNING)
    try:
        trio.run(broker, options)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        parser.exit(2, f"{error.strerror}\n")


main()
