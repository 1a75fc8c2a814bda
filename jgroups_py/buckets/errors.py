"""Errors of the bucket store."""

from __future__ import annotations

from jgroups_py.errors import JGroupsError


class BucketError(JGroupsError):
    """Base of the errors of this package."""


class BadPlugin(BucketError):
    """A plug-in contradicts itself or breaks its contract. Nothing was changed."""


class BadKey(BucketError):
    """A key is empty or longer than KEY_MAX bytes. Nothing was changed."""


class NotSensible(BucketError):
    """The Request Classifier does not know such a request (A11). No entry has seen it."""


class EntryFailed(BucketError):
    """The entry raised an error on this request and keeps its former state. The text names the error."""


class Busy(BucketError):
    """A limit was reached. No entry has seen the request. The text names the limit."""


class OutcomeUnknown(BucketError):
    """No answer came in time. The request may have been carried out or not."""


class Unavailable(BucketError):
    """The bucket has no master at present: both copies are lost, or the index has no majority. No entry has seen the request."""


class Refused(BucketError):
    """An administrative operation cannot be done. Nothing was changed. The text says why."""


class BucketsClosed(BucketError):
    """The node is closed. The request was not sent. Requests sent earlier ended with OutcomeUnknown."""
