"""Each class name has one meaning: a public class name is in one module only, except for the names in MEANT."""

import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Examples are programs of their own and are read alone.
TWINS = ("jgroups_py/aio/", "jgroups_py/blocking/")
"""Both modules offer the same thing, for asyncio and for threads, so they use the same name."""

MEANT = {
    "Answer": "the public reply of a call; elsewhere a message or a response of one room",
    "Ask": "a record of RELAY, as design/relay.md and its accounts name it",
    "BadMessage": "each system's codec raises its own",
    "Busy": "a public error of each package: users catch `buckets.Busy`, `export.Busy`",
    "Codec": "the same thing: values to bytes, at the store that is configured with it",
    "Connect": "an event between protocols, and the order to a driver's port",
    "Cut": "a record of RELAY, as design/relay.md and its accounts name it",
    "Discarded": "the public event of the cache, and the message that brings it",
    "Diverged": "a public error of each package",
    "Done": "a message of each system, in its messages.py",
    "Drop": "a message of each system, in its messages.py; of the cache a change on the wire",
    "Fetch": "a record of RELAY, as design/relay.md and its accounts name it",
    "Fetched": "a record of RELAY, as design/relay.md and its accounts name it",
    "Found": "a message of each system, in its messages.py",
    "Have": "a record of RELAY, as design/relay.md and its accounts name it",
    "Held": "a message of each system, in its messages.py",
    "Hello": "a message of each system, in its messages.py",
    "Known": "a message of each system, in its messages.py",
    "Leaving": "a message of each system, in its messages.py",
    "Link": "public in maps and in the testing kit, which no file uses together",
    "Listed": "a message of each system, in its messages.py",
    "Load": "public in the testing kit; of benches what is run",
    "Merged": "a message of each system, in its messages.py",
    "Message": "the public message, and the base of buddy replication's",
    "Op": "a message of each system, in its messages.py",
    "OutcomeUnknown": "a public error of each package",
    "Part": "a message of each system, in its messages.py",
    "Propose": "a message of each system, in its messages.py",
    "Put": "a request to an item, and a change of the cache",
    "Read": "a request to an item, and a drill's look at it",
    "Refused": "a public error of each package; of maps a message",
    "Remove": "a request to an item, and a change of the cache",
    "Report": "a record of RELAY, as design/relay.md and its accounts name it",
    "Rows": "a message of each system, in its messages.py",
    "Sent": "a message of each system, in its messages.py",
    "Step": "public in the testing kit; of livebackup one change",
    "Taken": "a message of each system, in its messages.py",
    "Told": "a message of each system, in its messages.py",
    "Unreachable": "a public error, and the event that it comes from",
    "Verdict": "public in the testing kit; of SEAL the verdict of a window",
}
"""Names that several modules use on purpose, and why."""


PUBLIC_CLASS = re.compile(r"^class ([^\W_]\w*)", re.MULTILINE)
"""A class of a module: parsing all modules takes a second and more."""


@functools.cache
def shared() -> dict[str, list[str]]:
    """Names of public classes that stand in two or more modules: name -> modules."""
    places: dict[str, list[str]] = {}
    for folder in ("jgroups_py", "protocols", "tools", "stacks"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            where = file.relative_to(ROOT).as_posix()
            if where.startswith(
                ("jgroups_py/protocols/", "jgroups_py/tools/", "jgroups_py/stacks/")
            ):
                continue  # links to the folders themselves
            if where.startswith(TWINS):
                continue
            for name in PUBLIC_CLASS.findall(file.read_text(encoding="utf-8")):
                places.setdefault(name, []).append(where)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_name_has_one_meaning() -> None:
    found = shared()
    new = {name: where for name, where in found.items() if name not in MEANT}
    assert new == {}, (
        "say more in the name of one of them: which room it is of, or what it is there"
    )


def test_the_list_names_only_shared_classes() -> None:
    assert sorted(set(MEANT) - set(shared())) == []
