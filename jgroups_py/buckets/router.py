"""Router: classifies requests, finds their bucket, forwards, repeats; conducts moves.

Source: 4.3.4, 4.4.2, 4.4.3, 4.4.8, 4.5.2.3. Differs: a request waits at a locked bucket. Only "moved" makes the router look up the bucket
again. It does so at once if its index or the answer has a newer row, else when the rows change, at the latest after a random time. A read
that a slave does not answer goes to the master at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from jgroups_py.buckets.digest import bucket_of, checked_key
from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.errors import (
    BadKey,
    BucketError,
    Busy,
    EntryFailed,
    NotSensible,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from jgroups_py.buckets.faults import PLUGIN_ERRORS, text_of
from jgroups_py.buckets.latency import KINDS, Latencies
from jgroups_py.buckets.messages import (
    Answer,
    BucketRow,
    Cancel,
    Deliver,
    EntryChange,
    Forward,
    Message,
    Move,
    Replies,
    RequestId,
    Role,
    Told,
    encode_change,
)
from jgroups_py.buckets.plugin import (
    BODY_MAX,
    Classification,
    ReadAt,
    Request,
    RequestClassifier,
)
from jgroups_py.buckets.port import Index, Port
from jgroups_py.buckets.rows import find_a_bucket, find_recreatable_buckets, misplaced
from jgroups_py.buckets.settings import InstanceSettings

Answered = Callable[[Replies | BucketError], None]
"""Called once with all replies that the entry specified, or with an error."""
Moved = Callable[[BucketRow | BucketError], None]
SWEEP = 0.25
"""Seconds between searches for requests that have waited too long."""


@dataclass
class PendingRequest:
    """An unanswered request."""

    id: RequestId
    bucket: int
    key: str
    body: bytes
    modifies: bool
    proxy: ProxyId | None
    read_at: ReadAt
    began: float
    deadline: float
    answered: Answered
    epoch: int = -1
    target: Cep | None = None
    attempts: int = 0
    forwarded: bool = False
    sent: float = 0.0
    puts: bool = False


@dataclass
class ConductedMove:
    """A move that this router conducts. ``candidates``: buckets that may be moved instead when this bucket is locked (A51)."""

    role: Role
    to: Cep
    candidates: list[int]
    moved: Moved
    lock_first: bool
    target: Cep | None = None
    problems: list[str] = field(default_factory=list)


class Router:
    """One CEP that routes requests. ``first_number``: its requests are numbered from here, because a request is known by its member and number."""

    def __init__(
        self,
        port: Port,
        classifier: RequestClassifier,
        settings: InstanceSettings,
        deliver: Callable[[ProxyId, bytes], bool],
        read_at: ReadAt = "master",
        first_number: int = 0,
    ) -> None:
        self.port, self.classifier, self.settings = port, classifier, settings
        self.read_at = read_at
        self.counts: Counter[str] = Counter()
        self.latencies = Latencies(*KINDS)
        self._deliver = deliver
        self._index: Index | None = None
        self._pending: dict[RequestId, PendingRequest] = {}
        self._moving: dict[int, ConductedMove] = {}
        self._cancels: dict[int, tuple[Cep, Moved]] = {}
        self._number = first_number
        self._sweeping = False

    def use_index(self, index: Index) -> None:
        """Look buckets up in this copy (UseIndex)."""
        self._index = index
        index.on_rows.append(self._look_again)

    @property
    def pending(self) -> int:
        """Count the unanswered requests."""
        return len(self._pending)

    @property
    def index(self) -> Index:
        assert self._index is not None, "use_index comes first"
        return self._index

    # --- requests

    def route_a_request(
        self, request: Request, proxy_id: ProxyId | None, answered: Answered
    ) -> RequestId | None:
        """Route a request to its bucket (RouteARequest). ``answered`` is called once, perhaps before this returns. Returns the id by
        which it can be forgotten."""
        return self._route(lambda: self._classified(request, proxy_id, answered), answered)

    def put_entry(self, change: EntryChange, answered: Answered) -> RequestId | None:
        """Put an exported entry in the place of its key's present one. Otherwise as ``route_a_request``; EntryFailed:
        the plug-in refuses it."""

        def pending() -> PendingRequest:
            return self._new(change.key, encode_change(change), True, None, "master", answered)

        return self._route(pending, answered, puts=True)

    def _route(
        self, make: Callable[[], PendingRequest], answered: Answered, *, puts: bool = False
    ) -> RequestId | None:
        self.counts["requests"] += 1
        try:
            pending = make()
        except BucketError as error:
            answered(error)
            return None
        pending.puts = puts
        self._pending[pending.id] = pending
        self._dispatch(pending)
        if not self._sweeping:
            self._sweeping = True
            self.port.after(SWEEP, self._sweep)
        return pending.id

    def forget(self, request_id: RequestId) -> None:
        """Forget a request without a waiting caller. It may be carried out or not."""
        if self._pending.pop(request_id, None) is not None:
            self.counts["forgotten"] += 1

    def _classified(
        self, request: Request, proxy_id: ProxyId | None, answered: Answered
    ) -> PendingRequest:
        """Classify a request. Raises BadKey, Busy, NotSensible."""
        self._check_room(request.body)
        try:
            found = self.classifier.classify(request)
        except PLUGIN_ERRORS as error:
            self.counts["classifier_failed"] += 1
            raise NotSensible(f"the classifier raised {text_of(error)}") from error
        if not isinstance(found, Classification) or not isinstance(found.modifies, bool):
            # Managers could not read a Forward made of this, and the client would wait until its timeout.
            self.counts["classifier_failed"] += 1
            raise NotSensible(f"the classifier returned {str(found)[:80]!r}, not a Classification")
        if not found.sensible:
            self.counts["not_sensible"] += 1
            raise NotSensible("the classifier does not know this request")
        key = found.key
        if key is None:
            number = self._number + 1
            key = f"{self.port.cep.member}-{number}-{self.port.random.getrandbits(32):08x}"
        read_at = request.read_at or self.read_at
        return self._new(key, request.body, found.modifies, proxy_id, read_at, answered)

    def _check_room(self, body: bytes) -> None:
        """Check that there is room for a request. Raises Busy."""
        if len(body) > BODY_MAX:
            raise Busy(f"BODY_MAX: a request is at most {BODY_MAX} bytes")
        if len(self._pending) >= self.settings.pending_max:
            self.counts["pending_full"] += 1
            raise Busy(f"pending_max: {self.settings.pending_max} requests are not answered")

    def _new(
        self,
        key: str,
        body: bytes,
        modifies: bool,
        proxy_id: ProxyId | None,
        read_at: ReadAt,
        answered: Answered,
    ) -> PendingRequest:
        """Make a request with its bucket and number. Raises BadKey, Busy."""
        self._check_room(body)
        checked_key(key)
        try:
            bucket = bucket_of(self.classifier.digest(key), self.settings.buckets)
        except PLUGIN_ERRORS as error:
            raise BadKey(f"key {key[:80]!r}: {text_of(error)}") from error
        if not 0 <= bucket < self.settings.buckets:
            raise BadKey(f"key {key[:80]!r}: the classifier's digest is not below 2**64")
        self._number += 1
        return PendingRequest(
            (self.port.cep.member, self._number),
            bucket,
            key,
            body,
            modifies,
            proxy_id,
            read_at,
            self.port.now,
            self.port.now + self.settings.request_timeout,
            answered,
        )

    def _dispatch(self, pending: PendingRequest, told: BucketRow | None = None) -> None:
        """Look up the bucket, unless the row was ``told``, and forward the request. Without a receiver wait for the next
        change of rows or view."""
        row = told or self.index.get_bucket_location(pending.bucket)
        if row is None:
            return
        target = row.master
        if not pending.modifies and pending.read_at == "slave" and row.slave is not None:
            target = row.slave
        members = self.port.members
        if target.member not in members:
            self.counts["waiting_for_take_over"] += 1
            other = row.slave if target == row.master else row.master
            if not pending.forwarded and (other is None or other.member not in members):
                self._end(pending, Unavailable(f"bucket {pending.bucket}: no copy is left"))
            return
        pending.epoch, pending.target = row.epoch, target
        pending.attempts += 1
        pending.forwarded = True
        pending.sent = self.port.now
        forward = Forward(
            pending.id,
            row,
            pending.key,
            pending.body,
            pending.modifies,
            pending.proxy,
            pending.puts,
        )
        self.port.post(target, forward)

    def _look_again(self) -> None:
        """Dispatch waiting requests again: rows or the view have changed."""
        for pending in list(self._pending.values()):
            row = self.index.get_bucket_location(pending.bucket)
            target = pending.target
            lost = target is None or target.member not in self.port.members
            if row is None or row.epoch < pending.epoch:  # it got a newer row
                continue
            if lost or target is None or row.role_of(target) is None:
                self._dispatch(pending)

    def on_view(self, merged: bool = False) -> None:
        self._look_again()
        for ask, moving in list(self._moving.items()):
            lost = moving.target is not None and moving.target.member not in self.port.members
            if lost or merged:
                del self._moving[ask]
                moving.moved(OutcomeUnknown("the master's manager is lost, or its answer"))
        for ask, (target, ended) in list(self._cancels.items()):
            if merged or target.member not in self.port.members:
                del self._cancels[ask]
                ended(OutcomeUnknown("the master's manager is lost, or its answer"))

    def _on_answer(self, frm: Cep, answer: Answer) -> None:
        pending = self._pending.get(answer.id)
        if pending is None:
            self.counts["late_answers"] += 1
            return
        if answer.status == "moved":
            self._on_moved(frm, pending, answer.row)
        elif answer.status == "busy":
            self._end(pending, Busy(answer.text))
        elif answer.status == "failed":
            self._end(pending, EntryFailed(answer.text))
        else:
            for proxy, body in answer.replies:
                if proxy.manager.member == self.port.cep.member:
                    self._deliver(proxy, body)
                else:
                    self.port.post(proxy.manager, Deliver(proxy, body))
            self.counts["answered"] += 1
            kind = "changes" if pending.modifies else "reads"
            self.latencies.add(kind, self.port.now - pending.began)
            del self._pending[pending.id]
            pending.answered(answer.replies)

    def _on_moved(self, frm: Cep, pending: PendingRequest, told: BucketRow | None) -> None:
        if frm != pending.target:  # the request was sent elsewhere meanwhile
            self.counts["late_answers"] += 1
            return
        self.counts["moved"] += 1
        row = self.index.get_bucket_location(pending.bucket)
        if row is not None and row.epoch > pending.epoch:
            self._dispatch(pending)
            return
        if told is not None and told.bucket == pending.bucket and told.epoch > pending.epoch:
            self._dispatch(pending, told)
            return
        if pending.read_at == "slave" and row is not None and frm == row.slave:
            pending.read_at = "master"  # this slave is about to be replaced, or lacks its lease
            self._dispatch(pending)
            return
        longest = min(
            self.settings.backoff * 2 ** min(pending.attempts, 10), self.settings.backoff_max
        )
        delay = self.port.random.uniform(0, longest)
        attempt = pending.attempts
        self.port.after(delay, lambda: self._repeat(pending, attempt))

    def _repeat(self, pending: PendingRequest, attempt: int) -> None:
        if self._pending.get(pending.id) is pending and pending.attempts == attempt:
            self._dispatch(pending)

    def _end(self, pending: PendingRequest, error: BucketError) -> None:
        del self._pending[pending.id]
        self.counts["refused"] += 1
        pending.answered(error)

    def _sweep(self) -> None:
        now = self.port.now
        for pending in list(self._pending.values()):
            if pending.deadline > now:
                if pending.sent + self.settings.repeat_after <= now:
                    self.counts["repeated"] += 1
                    self._dispatch(pending)
                continue
            self.counts["timed_out"] += 1
            seconds = self.settings.request_timeout
            if pending.forwarded:
                error: BucketError = OutcomeUnknown(
                    f"request_timeout: no answer within {seconds:g} s"
                )
            else:
                error = Unavailable(f"bucket {pending.bucket} has no master for {seconds:g} s")
            self._end(pending, error)
        self._sweeping = bool(self._pending)
        if self._sweeping:
            self.port.after(SWEEP, self._sweep)

    def handle(self, frm: Cep, message: Message) -> None:
        match message:
            case Answer():
                self._on_answer(frm, message)
            case Told():
                self._on_told(message)
            case _:
                self.counts["unexpected"] += 1

    # --- moves

    def migrate_master_bucket(
        self,
        frm: Cep,
        to: Cep,
        moved: Moved,
        *,
        bucket: int | None = None,
        lock_first: bool = False,
    ) -> None:
        """Move a master, any one or this one, between two managers (MigrateMasterBucket)."""
        self._migrate("master", frm, to, moved, bucket, lock_first)

    def migrate_slave_bucket(
        self,
        frm: Cep,
        to: Cep,
        moved: Moved,
        *,
        bucket: int | None = None,
        lock_first: bool = False,
    ) -> None:
        """Move a slave, as ``migrate_master_bucket`` moves a master (MigrateSlaveBucket)."""
        self._migrate("slave", frm, to, moved, bucket, lock_first)

    def recreate_bucket(
        self, at: Cep, moved: Moved, *, bucket: int | None = None, lock_first: bool = False
    ) -> None:
        """Make a missing slave at this manager (RecreateBucket, A56)."""
        rows = self.index.state.rows
        found = find_recreatable_buckets(rows.values()) if bucket is None else [bucket]
        found = [b for b in found if b in rows and rows[b].slave is None and rows[b].master != at]
        self._next_candidate(ConductedMove("slave", at, found, moved, lock_first))

    def _migrate(
        self, role: Role, frm: Cep, to: Cep, moved: Moved, bucket: int | None, lock_first: bool
    ) -> None:
        found = find_a_bucket(self.index.state.rows.values(), frm, role)
        if bucket is not None:
            found = [b for b in found if b == bucket]
        self._next_candidate(ConductedMove(role, to, found, moved, lock_first))

    def _next_candidate(self, moving: ConductedMove) -> None:
        """Ask for the first bucket that may be moved there (step 2)."""
        state = self.index.state
        info = next((m.info for m in state.managers if m.cep == moving.to), None)
        if info is None or moving.to.member not in self.port.members:
            moving.moved(Refused(f"there is no bucket manager {moving.to}"))
            return
        while moving.candidates:
            row = state.rows[moving.candidates.pop(0)]
            if row.master.member not in self.port.members:  # no member would answer
                moving.problems.append(f"bucket {row.bucket}: its master's manager is lost")
                continue
            master = moving.to if moving.role == "master" else row.master
            slave = row.slave if moving.role == "master" else moving.to
            problem = misplaced(BucketRow(row.bucket, row.epoch, master, slave), state.managers)
            if problem:
                moving.problems.append(f"bucket {row.bucket}: {problem}")
                continue
            ask = self.port.random.getrandbits(62)
            self._moving[ask] = moving
            moving.target = row.master
            move = Move(ask, row, moving.role, moving.to, info.version, moving.lock_first)
            self.port.post(row.master, move)
            return
        why = "; ".join(moving.problems[-3:]) or f"no bucket to move to {moving.to}"
        moving.moved(Refused(why))

    def cancel(self, bucket: int, moved: Moved) -> None:
        """Give up the move of this bucket. Once the index was asked, it decides, and the move may succeed."""
        row = self.index.get_bucket_location(bucket)
        if row is None or row.master.member not in self.port.members:
            moved(Refused(f"bucket {bucket} has no master"))
            return
        ask = self.port.random.getrandbits(62)
        self._cancels[ask] = row.master, moved
        self.port.post(row.master, Cancel(ask, bucket))

    def _on_told(self, told: Told) -> None:
        cancelled = self._cancels.pop(told.ask, None)
        if cancelled is not None:
            row = told.row or BucketRow(0, 0, self.port.cep)
            cancelled[1](row if told.ok else Refused(told.text))
            return
        moving = self._moving.pop(told.ask, None)
        if moving is None:
            return
        if told.ok and told.row is not None:
            moving.moved(told.row)
        elif told.busy and moving.candidates:
            moving.problems.append(told.text)
            self._next_candidate(moving)
        else:
            moving.moved(Refused(told.text))
