"""The application of the explorer: an entry is a list to which tokens are added. The reply to "+TOKEN" is its place in the list, the reply to "?" the
list. So each answer tells which history it belongs to. Adding is not repeatable: a request that is carried out twice shows.

Version 81 keeps tokens in another format than version 73, reads both and writes both.
"""

from __future__ import annotations

import json

from jgroups_py.buckets.plugin import (
    NOT_SENSIBLE,
    Classification,
    Entry,
    EntryBehaviourProvider,
    EntryBucket,
    Plugin,
    ProxyId,
    Reply,
    Request,
    RequestClassifier,
)

OLD, NEW = 73, 81


class TokenLedger(Entry):
    def __init__(self, version: int) -> None:
        self.version = version
        self.tokens: list[str] = []

    def manipulate(self, bucket: EntryBucket, request: Request, proxy_id: ProxyId | None) -> None:
        if request.body.startswith(b"+"):
            self.tokens.append(request.body[1:].decode())
            bucket.save_serialised_entry(self.serialise(self.version))
            said = str(len(self.tokens) - 1)
        elif request.body == b"-":
            bucket.delete_entry()
            said = "deleted"
        elif request.body == b"!":
            raise ValueError("as asked")
        else:
            said = " ".join(self.tokens)
        if proxy_id is not None:
            bucket.specify_replies([Reply(proxy_id, said.encode())])

    def serialise(self, version: int) -> bytes:
        if version == OLD:
            return " ".join(self.tokens).encode()
        return json.dumps({"tokens": self.tokens}).encode()

    def unserialise(self, data: bytes, version: int) -> None:
        if version == OLD:
            self.tokens = data.decode().split()
        else:
            self.tokens = json.loads(data)["tokens"]


class LedgerProvider(EntryBehaviourProvider):
    application = "ledger"

    def __init__(self, version: int) -> None:
        self.version = version
        self.reads = self.writes = (OLD,) if version == NEW else ()

    def create_entry(self, key: str) -> Entry:
        return TokenLedger(self.version)


class LedgerClassifier(RequestClassifier):
    def classify(self, request: Request) -> Classification:
        if request.body[:1] in (b"+", b"-", b"!"):
            return Classification(key=request.key)
        if request.body == b"?":
            return Classification(key=request.key, modifies=False)
        return NOT_SENSIBLE


def ledger(version: int = OLD) -> Plugin:
    return Plugin(LedgerProvider(version), LedgerClassifier())
