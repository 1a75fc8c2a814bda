"""For testing protocols, ours and yours."""

from jgroups_py.testing.fake import FakeStack, make_address

__all__ = ["FakeStack", "make_address"]
