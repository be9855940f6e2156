"""A sweep's table of trials in this process, and what stands in its sweep for the channel to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from results.records.trials import TrialRecord
from sweeps.driver.trials.answers import settle
from sweeps.driver.trials.changes import apply
from sweeps.driver.trials.messages import Assignment, Message, MessageKind
from sweeps.driver.trials.table import Event, TrialTable, open_table
from sweeps.options import SweepPlan


def named_trial(name: str) -> TrialRecord:
    """A trial with nothing but a name."""
    return TrialRecord(trial_id=name, number=0, replicate=0, seed=0, params={}, config="{}", config_hash="")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A message that waits for an answer, or has got it."""

    answers: Mapping[int, Any]
    number: int

    @property
    def is_answered(self) -> bool:
        return self.number in self.answers

    @property
    def answer(self) -> Any:
        assert self.is_answered, "it still waits"
        return self.answers[self.number]


class LocalTable:
    """A table that is told messages, answers whoever can be answered, and keeps the events."""

    def __init__(self, plan: SweepPlan | None = None, table: TrialTable | None = None) -> None:
        nothing: Any = SimpleNamespace(options=SimpleNamespace(workers=1, search="tpe"), race=None)
        self.plan: SweepPlan = plan or nothing
        self.table = table or open_table(self.plan)
        self.answers: dict[int, Any] = {}
        self._events: list[Event] = []
        self._number = 0

    def hear(self, message: Message) -> None:
        self._events += apply(self.table, message)
        answers, events = settle(self.table)
        self.answers |= answers
        self._events += events

    def hear_question(self, message: Message) -> Asked:
        self._number += 1
        self.hear(Message(**{**vars(message), "number": self._number}))
        return Asked(answers=self.answers, number=self._number)

    def tell(self, kind: MessageKind, trial_id: str | None = None, attempt: int = 1, **facts: Any) -> None:
        """Tells something, of a lane where `lane` is among the facts."""
        lane = facts.pop("lane", None)
        self.hear(Message(kind=kind, trial_id=trial_id, lane=lane, attempt=attempt, facts=facts))

    def ask(self, kind: MessageKind, trial_id: str | None = None, attempt: int = 1, **facts: Any) -> Asked:
        """Likewise, and waits for an answer."""
        lane = facts.pop("lane", None)
        return self.hear_question(Message(kind=kind, trial_id=trial_id, lane=lane, attempt=attempt, facts=facts))

    def suggest(self, name: str) -> None:
        """Tune gets a trial."""
        self.tell("suggested", trial=named_trial(name))

    def open(self, lane: str, node: str = "n", gpus: Any = ()) -> bool:
        """A lane has workers on a node."""
        answer = self.ask("workers_started", lane=lane, nodes=[node], workers=[(node, 1)], gpus=gpus).answer
        return bool(answer)

    def want(self, lane: str) -> Asked:
        """A lane asks for a trial."""
        return self.ask("wants_trial", lane=lane, host="here")

    def assign(self, name: str = "t", lane: str = "a", node: str = "n") -> Assignment:
        """A lane on a node gets a trial, which is new or waits."""
        if name not in self.table.rows:
            self.suggest(name)
        self.open(lane, node)
        found = self.want(lane).answer
        assert isinstance(found, Assignment)
        return found

    def report(self, epoch: int, score: float = 0.5, *, name: str = "t", attempt: int = 1, **facts: Any) -> Asked:
        """A lane reports an epoch and waits for the verdict."""
        return self.ask("epoch", name, attempt, **report(epoch, score, **facts))

    def decide(self, epoch: int, stop: bool, name: str = "t") -> None:
        """The scheduler's verdict."""
        self.tell("verdict", name, epoch=epoch, stop=stop)

    def events(self, *kinds: str) -> list[Event]:
        """Events of these kinds, or all, since the last call; the others are dropped."""
        found, self._events = self._events, []
        return [event for event in found if not kinds or event.kind in kinds]


def report(epoch: int, score: float = 0.5, **facts: Any) -> dict[str, Any]:
    """A lane's report of an epoch, with an overall score unless `scores` says otherwise."""
    scores = {"sst": score, "overall": score}
    place = {"epoch": epoch, "step": 10 * epoch, "is_last": False}
    return {**place, "seconds": 1.0, "score": score, "scores": scores, "points": [], **facts}


class LocalChannel:
    """Stands in for the channel of a lane: what is asked must have its answer, so verdicts are given beforehand."""

    def __init__(self, local: LocalTable) -> None:
        self.local = local
        self.messages: list[Message] = []
        self.tell = SimpleNamespace(remote=self._tell)
        self.ask = SimpleNamespace(remote=self._ask)

    def _tell(self, message: Message) -> None:
        self.messages.append(message)
        self.local.hear(message)

    def _ask(self, message: Message) -> Any:
        self.messages.append(message)
        return self.local.hear_question(message).answer


def call_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets Ray's answers be there at once."""
    monkeypatch.setattr(ray, "get", lambda answer, **_settings: answer)
    monkeypatch.setattr(ray, "wait", lambda found, **_settings: (found, []))
