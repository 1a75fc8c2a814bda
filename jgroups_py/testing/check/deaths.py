"""death: no living member counts as proved dead, however it was paused, cut off or slowed down.

A proof of death lets survivors expel a member without waiting (FD_SOCK2, VERIFY_SUSPECT2), so one false proof is a
false expulsion. After each step the members that VERIFY_SUSPECT2 takes for proved dead are compared with the processes
that have ended. Silence alone is no proof and is not judged here.
"""

from __future__ import annotations

from jgroups_py.protocols.failure.verify_suspect2 import VERIFY_SUSPECT2
from jgroups_py.testing.check.checkers import Checker
from jgroups_py.testing.sim.host import Host


class Deaths:
    """Watches every member of ``checker``."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._of: dict[Host, VERIFY_SUSPECT2 | None] = {}

    def after_step(self, host: Host) -> None:
        verify = self._of.get(host)
        if verify is not None:
            if verify.gone:
                self._look(verify)
        elif host not in self._of:
            self._find(host)

    def _find(self, host: Host) -> None:
        for member in self._checker.members.values():
            if member.host is host:
                self._of[host] = member.stack.find(VERIFY_SUSPECT2)

    def _look(self, verify: VERIFY_SUSPECT2) -> None:
        members = self._checker.members
        holder = members[verify.local_address]
        for address in verify.gone:
            member = members.get(address)
            if member is not None and member.alive and not member.leaving:
                say = f"takes {self._checker.name(address)} for proved dead, which is alive"
                self._checker.say("death", holder, say)
