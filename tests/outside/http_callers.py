"""Callers of a bucket store over HTTP, in threads. They record each call as an operation of registers, and the times in which
they hold locks."""

from __future__ import annotations

import http.client
import random
import threading
import time
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

from jgroups_py.testing import NEVER, UNKNOWN, Operation, Use

NUMBERS = ("n0", "n1")
WORDS = ("r0", "r1", "r2")
LOCKS = ("l0", "l1")
LEASES = ("e0", "e1")
LEASE = 2
PATIENCE = 30.0
PAUSE = 0.01
HOLD = 0.02
NOT_DONE = "nothing was changed"
"""Part of the text of a status 503 if the request has certainly not run."""
BROKEN_AFTER = 3.0
"""Seconds after which a lock of the same holder is taken away: its acquisition had no answer."""


class Said(NamedTuple):
    """A response. Status 0: none came."""

    status: int
    body: str = ""
    etag: str = ""
    sent: float = 0.0
    came: float = 0.0

    @property
    def known(self) -> bool:
        return self.status not in (0, 503)


class Door:
    """A connection that is made again after an error."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, key: str, query: str = "", body: str = "", **headers: str) -> Said:
        sent = time.monotonic()
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        if self._connection.sock is None:
            try:
                self._connection.connect()
            except OSError:
                return Said(0, NOT_DONE, sent=sent, came=time.monotonic())
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            self._connection.request(method, f"/entries/{quote(key)}{query}", body, names)
            response = self._connection.getresponse()
            text = response.read().decode()
            etag = response.getheader("ETag") or ""
            return Said(response.status, text.strip(), etag, sent, time.monotonic())
        except (OSError, http.client.HTTPException):
            self.close()
            return Said(0, sent=sent, came=time.monotonic())

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Caller(threading.Thread):
    """One caller at one door."""

    def __init__(self, name: str, port: int, seed: int, ending: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._door, self._ending = Door(port), ending
        self._chance = random.Random(f"{seed}/{name}")
        self._count = 0
        self._seen: dict[str, tuple[str, float]] = {}
        """Lock -> its holder, and since when this caller has seen that one."""
        self.history: list[Operation] = []
        self.held: list[tuple[str, float, float]] = []
        """Locks and leases, with the times in which this caller certainly held them."""
        self.problems: list[str] = []
        self.last = time.monotonic()
        """The time of the newest answer."""

    def run(self) -> None:
        try:
            while not self._ending.is_set():
                match self._chance.choice(("number", "number", "word", "word", "lock", "lease")):
                    case "number":
                        self._number(self._chance.choice(NUMBERS))
                    case "word":
                        self._word(self._chance.choice(WORDS))
                    case "lock":
                        self._lock(self._chance.choice(LOCKS))
                    case "lease":
                        self._lease(self._chance.choice(LEASES))
                time.sleep(self._chance.random() * PAUSE)
        except Exception as error:
            self.problems.append(f"{self.name}: {error!r}")
        finally:
            self._door.close()

    def _note(self, use: Use, said: Said, result: object = None) -> None:
        if said.known:
            self.last = said.came
            self.history.append(Operation(self.name, use, said.sent, said.came, result))
        elif use.do != "read" and NOT_DONE not in said.body:
            self.history.append(Operation(self.name, use, said.sent, NEVER, UNKNOWN))
        if not said.known:
            time.sleep(0.05)

    def _expect(self, said: Said, *statuses: int) -> None:
        if said.known and said.status not in statuses:
            self.problems.append(f"{self.name}: status {said.status}, {said.body}")

    def _new(self) -> str:
        self._count += 1
        return f"{self.name}.{self._count}"

    def _number(self, key: str) -> None:
        if self._chance.random() < 0.5:
            said = self._door.ask("POST", key, "?change=incr&by=1")
            self._expect(said, 200)
            self._note(Use("add", key, 1), said, int(said.body) if said.status == 200 else None)
        else:
            said = self._door.ask("GET", key)
            self._expect(said, 200)
            self._note(Use("read", key), said, int(said.body) if said.status == 200 else None)

    def _read(self, key: str) -> Said:
        said = self._door.ask("GET", key)
        self._expect(said, 200, 404)
        self._note(Use("read", key), said, said.body if said.status == 200 else None)
        return said

    def _word(self, key: str) -> None:
        value = self._new()
        match self._chance.choice(("read", "put", "add", "cas", "remove", "remove it")):
            case "read":
                self._read(key)
            case "put":
                said = self._door.ask("PUT", key, body=value)
                self._expect(said, 201, 204)
                self._note(Use("write", key, value), said)
            case "add":
                self._add(key, value)
            case "cas":
                seen = self._read(key)
                if seen.status == 200:
                    said = self._door.ask("PUT", key, body=value, If_Match=seen.etag)
                    self._expect(said, 204, 412)
                    self._note(Use("cas", key, value, seen.body), said, said.status == 204)
            case "remove":
                said = self._door.ask("DELETE", key)
                self._expect(said, 204, 404)
                absent = said.status == 404
                self._note(Use("read", key) if absent else Use("write", key, None), said)
            case _:
                seen = self._read(key)
                if seen.status == 200:
                    self._remove(key, seen.body, seen.etag)

    def _add(self, key: str, value: str) -> Said:
        said = self._door.ask("PUT", key, body=value, If_None_Match="*")
        self._expect(said, 201, 412)
        self._note(Use("cas", key, value, None), said, said.status == 201)
        return said

    def _remove(self, key: str, value: str, etag: str) -> Said:
        """Remove an entry if it still has this version."""
        said = self._door.ask("DELETE", key, If_Match=etag)
        self._expect(said, 204, 412, 404)
        self._note(Use("cas", key, None, value), said, said.status == 204)
        return said

    def _holds(self, key: str, said: Said, until: float) -> None:
        """Note the certain part of a holding. If the answer comes late, others may have the lock already."""
        if said.came < until:
            self.held.append((key, said.came, until))

    def _lock(self, key: str) -> None:
        value = self._new()
        said = self._add(key, value)
        if said.status != 201:
            self._break(key)
            return
        time.sleep(self._chance.random() * HOLD)
        self._holds(key, said, min(time.monotonic(), said.sent + BROKEN_AFTER))
        while not self._remove(key, value, said.etag).known and not self._ending.is_set():
            pass

    def _break(self, key: str) -> None:
        """Take the lock away from a holder that does not know that it holds it."""
        seen = self._read(key)
        if seen.status != 200:
            return
        holder, since = self._seen.get(key, ("", 0.0))
        if holder != seen.body:
            self._seen[key] = (seen.body, seen.came)
        elif seen.sent - since > BROKEN_AFTER:
            self._remove(key, seen.body, seen.etag)

    def _lease(self, key: str) -> None:
        """Take a lock that ends by itself. Some holders give it back, and some do not."""
        value = self._new()
        said = self._door.ask("PUT", key, f"?expires={LEASE}", value, If_None_Match="*")
        self._expect(said, 201, 412)
        if said.status != 201:
            return
        self.last = said.came
        if self._chance.random() < 0.8:
            time.sleep(self._chance.random() * HOLD)
            self._holds(key, said, min(time.monotonic(), said.sent + LEASE))
            with suppress(OSError):
                self._door.ask("DELETE", key, If_Match=said.etag)
        else:
            self._holds(key, said, said.sent + LEASE)
