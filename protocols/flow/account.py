"""The account that a receiver keeps of one sender's bytes.

    received    held += n                   arrived, not read
    read        held -= n, owed += n        the application has taken them, or they were dropped
    given       owed -= n                   the sender may send as many again

``incomplete`` is the part of ``held`` that belongs to messages of which the rest is still to come. It may be given in
advance: a sender cannot finish a message that is larger than its credits otherwise. So ``due``, what may be given now, is
``owed + incomplete``. A message that is complete and unread is no longer incomplete, and the credit that was given for it in advance is
a debt: ``owed`` is negative, and bytes that are read pay it first.

Why a receiver that reads nothing has a limit: all that was given is at most what was read and the largest incomplete message,
and a sender has at most its credits under way. So its unread bytes are at most its credits and one large message, whatever the
credits of either side are.

Why nothing is stuck: when the application has read what is complete, all that is held is incomplete. Then all bytes that
arrived may be given, and the sender has all its credits again.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CreditAccount:
    """The bytes of one sender."""

    threshold: int
    """So many bytes are given unasked."""
    held: int = 0
    owed: int = 0
    incomplete: int = 0
    wanted: int = 0
    """The bytes that it had under way when it last asked, less what was given since."""

    @property
    def due(self) -> int:
        """The bytes that may be given now; negative while there is a debt."""
        return self.owed + self.incomplete

    @property
    def is_unread(self) -> bool:
        """True if the application has something to read."""
        return self.held > self.incomplete

    @property
    def is_worth_giving(self) -> bool:
        """True if enough is due for a message. A sender that has asked waits for all that it has under way, or for all there is."""
        due = self.owed + self.incomplete
        if due >= self.threshold:
            return True
        if due <= 0 or not self.wanted:
            return False
        return due >= self.wanted or not self.is_unread

    def read(self, amount: int) -> None:
        """Count bytes that the application has taken."""
        self.held = max(0, self.held - amount)
        self.incomplete = min(self.incomplete, self.held)
        self.owed += amount

    def hold_incomplete(self, amount: int) -> None:
        """Set how many of the held bytes belong to incomplete messages."""
        self.incomplete = min(amount, self.held)

    def give(self) -> int:
        """Count all that is due as given, and return it."""
        amount = self.due
        assert amount > 0, "nothing is due"
        self.owed -= amount
        self.wanted = max(0, self.wanted - amount)
        return amount
