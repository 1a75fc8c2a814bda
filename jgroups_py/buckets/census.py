"""Census: asks the members of the view for their statistics. Without I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import AskStatistics, Message, NodeStatistics, Statistics
from jgroups_py.buckets.port import Port

NAME: Final = "census"
"""The component of each member that answers."""
QUESTIONS_MAX: Final = 100
"""The most unanswered questions of one member. Beyond it the oldest question ends with the answers that it has, counted
``questions_full``."""
Counted = Callable[[list[NodeStatistics], list[str]], None]
"""Called once with the members' answers, and with the silent members."""


@dataclass
class Question:
    waits_for: set[str]
    counted: Counted
    answers: list[NodeStatistics] = field(default_factory=list)


class Census:
    """``own`` gives this member's statistics, with or without a list of its buckets."""

    def __init__(self, port: Port, own: Callable[[bool], NodeStatistics]) -> None:
        self.port, self._own = port, own
        self.counts: Counter[str] = Counter()
        self._questions: dict[int, Question] = {}

    def ask(self, counted: Counted, *, buckets: bool = False, timeout: float = 3.0) -> None:
        """Ask all members. ``counted`` gets their answers, and the members that were silent for
        ``timeout`` seconds."""
        if len(self._questions) >= QUESTIONS_MAX:
            self.counts["questions_full"] += 1
            self._end(next(iter(self._questions)))
        number = self.port.random.getrandbits(62)
        others = set(self.port.members) - {self.port.cep.member}
        self._questions[number] = Question(others, counted, [self._own(buckets)])
        for member in sorted(others):
            self.port.post(Cep(member, NAME), AskStatistics(number, buckets))
        self.port.after(timeout, lambda: self._end(number))
        self._look(number)

    def handle(self, frm: Cep, message: Message) -> None:
        match message:
            case AskStatistics():
                self.port.post(frm, Statistics(message.ask, self._own(message.buckets)))
            case Statistics():
                question = self._questions.get(message.ask)
                if question is None or frm.member not in question.waits_for:
                    self.counts["late_statistics"] += 1
                    return
                question.waits_for.discard(frm.member)
                question.answers.append(message.statistics)
                self._look(message.ask)
            case _:
                self.counts["unexpected"] += 1

    def on_view(self) -> None:
        """Stop waiting for members that have left the view."""
        for number, question in list(self._questions.items()):
            question.waits_for &= set(self.port.members)
            self._look(number)

    def _look(self, number: int) -> None:
        if not self._questions[number].waits_for:
            self._end(number)

    def _end(self, number: int) -> None:
        question = self._questions.pop(number, None)
        if question is not None:
            question.counted(question.answers, sorted(question.waits_for))
