"""Runs a sweep: opens lanes, lets Tune suggest and judge trials, keeps the records, and closes everything."""

import queue
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mtlib.schema import first_line
from results.epochs import compact
from results.records import TrialRecord
from sweeps.capacity import num_lanes
from sweeps.cleaning import Names, clean
from sweeps.cluster import close_ray, open_ray
from sweeps.interrupts import Interrupts
from sweeps.lanes import Lane, lane_setup, open_lane
from sweeps.ledger import Ledger, add_trial, apply, close_ledger, open_ledger, save
from sweeps.leftovers import remove_orphaned_groups, remove_own_groups
from sweeps.messages import Event
from sweeps.model_size import count_parameters
from sweeps.options import SweepPlan
from sweeps.reported import reported_before
from sweeps.scheduler import make_scheduler
from sweeps.search import Search
from sweeps.searcher import SweepSearcher
from sweeps.study import open_study
from sweeps.trial_mailbox import Mailbox
from sweeps.trial_spec import TrialSpec

OnEvent = Callable[[Event, Ledger], None]

POLL_SECONDS = 0.25
"""How long the driver waits for news before it looks after lanes and Ctrl-C."""
PATIENCE_SECONDS = 4.0
"""How long trials have, after Ctrl-C, to save their state; and then lanes to close."""
CLOSING_SECONDS = 20.0
"""How long lanes have to close, and Tune to end, so that their resources are free; they need one or two."""
SCRATCH = ".ray"
"""Folder, inside the sweep's, for what Ray insists on writing; removed at the end."""


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """How a sweep ended."""

    counts: Mapping[str, int]
    """Trials by status."""
    failures: Mapping[str, str]
    """Why each failed trial failed, by its id."""
    is_interrupted: bool
    error: str | None
    """Why the sweep itself failed."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All that is open while a sweep runs."""

    plan: SweepPlan
    ledger: Ledger
    on_event: OnEvent
    mailbox: ActorHandle[Any]
    lanes: list[Lane]
    searcher: SweepSearcher
    search: Search
    suggested: "queue.SimpleQueue[TrialSpec]"
    """Trials that Tune's thread has suggested and the ledger does not know yet."""
    troubles: dict[str, str] = field(default_factory=dict)
    """By lane, what it said when it could not load."""
    cleaned: Names = field(default_factory=dict)
    """What of trials' best weights is left."""


def run_sweep(plan: SweepPlan, on_event: OnEvent, known: Sequence[TrialRecord] = ()) -> SweepOutcome:
    """Runs all trials of a plan that have not ended.

    Args:
        plan: the sweep; its folder exists.
        on_event: called in this thread with each event and the ledger after it.
        known: of a sweep that goes on, its trials so far; those that are queued are run.

    Raises:
        ValueError: no trial fits the cluster, there is no cluster, or a lane cannot load data or encoder.
        KeyboardInterrupt: interrupted twice.
    """
    ledger = open_ledger(plan, known)
    save(ledger, plan.folder)
    with Interrupts() as interrupts:
        try:
            error = run_on_ray(plan, ledger, on_event, interrupts)
        finally:
            close_records(plan, ledger)
    return outcome_of(ledger, interrupts.count > 0 and error is None, error)


def close_records(plan: SweepPlan, ledger: Ledger) -> None:
    """Leaves a sweep's folder as nothing that runs needs it: tables whole, weights that no selection needs gone."""
    close_ledger(ledger)
    save(ledger, plan.folder)
    clean(plan.folder, ledger.records.values(), plan.keep_models)
    compact(plan.folder)
    shutil.rmtree(plan.folder / SCRATCH, ignore_errors=True)


def outcome_of(ledger: Ledger, is_interrupted: bool, error: str | None) -> SweepOutcome:
    """How a sweep ended, by its records."""
    failures = {name: record.error or "" for name, record in ledger.records.items() if record.status == "failed"}
    return SweepOutcome(counts=ledger.counts, failures=failures, is_interrupted=is_interrupted, error=error)


def run_on_ray(plan: SweepPlan, ledger: Ledger, on_event: OnEvent, interrupts: Interrupts) -> str | None:
    """Runs the sweep on Ray and leaves Ray as it was; why the sweep failed, if it did."""
    cluster = open_ray(plan.address)
    try:
        interrupts.catch()  # Ray has taken over SIGTERM
        remove_orphaned_groups()
        if cluster.dashboard:
            on_event(note(f"Ray's dashboard: {cluster.dashboard}"), ledger)
        sweep = open_sweep(plan, ledger, on_event)
        lanes, workers = count_of(len(sweep.lanes), "lane"), count_of(plan.num_workers, "worker")
        tell(sweep, note(f"Opening {lanes} of {workers} each"))
        try:
            return follow(sweep, interrupts)
        except RayError as error:
            return f"Ray failed: {first_line(error)}"
        finally:
            close_sweep(sweep, (CLOSING_SECONDS, PATIENCE_SECONDS, 0.0)[min(interrupts.count, 2)])
    finally:
        close_ray(cluster)


def count_of(number: int, what: str) -> str:
    """`1 lane`, `2 lanes`."""
    return f"{number} {what}{'s' * (number != 1)}"


def note(text: str) -> Event:
    """Something to tell a person."""
    return Event(kind="note", facts={"text": text})


def open_sweep(plan: SweepPlan, ledger: Ledger, on_event: OnEvent) -> Sweep:
    """Opens mailbox, lanes and search; they start side by side."""
    count = num_lanes(plan, count_parameters(plan.base.encoder.name))
    suggested: queue.SimpleQueue[TrialSpec] = queue.SimpleQueue()
    study = open_study(plan.folder, plan.name)
    known = list(ledger.records.values())
    searcher = SweepSearcher(plan, study, suggested.put, max_live=count, known=known)
    mailbox = open_mailbox(plan)
    scratch = plan.folder / SCRATCH
    return Sweep(
        plan=plan,
        ledger=ledger,
        on_event=on_event,
        mailbox=mailbox,
        lanes=[open_lane(plan, lane_setup(plan, mailbox, number), scratch) for number in range(count)],
        searcher=searcher,
        search=Search(mailbox, searcher, make_scheduler(plan, reported_before(plan, known)), scratch),
        suggested=suggested,
    )


def open_mailbox(plan: SweepPlan) -> ActorHandle[Any]:
    """The mailbox as an actor without a device, on the driver's node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = ray.remote(num_cpus=0)(Mailbox)
    mailbox: ActorHandle[Any] = actor.options(scheduling_strategy=here, name=f"{plan.name}-mailbox").remote()
    return mailbox


def follow(sweep: Sweep, interrupts: Interrupts) -> str | None:
    """Keeps the records until Tune has ended, or until patience has after an interruption.

    Returns:
        Why the sweep failed, if it did.

    Raises:
        ValueError: a lane cannot load what the sweep asks for.
    """
    error: str | None = None
    deadline = float("inf")
    while not sweep.search.is_over and time.monotonic() < deadline:
        take_news(sweep, POLL_SECONDS)
        if deadline < float("inf"):
            continue  # everything has been told to end, and does
        error = lose_lanes(sweep)
        if interrupts.count or error:
            deadline = time.monotonic() + PATIENCE_SECONDS
            sweep.searcher.stop()
            ray.get(sweep.mailbox.interrupt.remote())
    take_news(sweep, 0.0)
    return error or sweep.search.error


def take_news(sweep: Sweep, timeout: float) -> None:
    """Waits for events, at most `timeout` seconds, and enters them."""
    events: list[Event] = ray.get(sweep.mailbox.take_events.remote(timeout))
    while not sweep.suggested.empty():
        add_trial(sweep.ledger, sweep.suggested.get())
    for event in events:
        tell(sweep, event)
    save(sweep.ledger, sweep.plan.folder)
    if any(event.kind == "ended" for event in events):
        clean(sweep.plan.folder, sweep.ledger.records.values(), sweep.plan.keep_models, sweep.cleaned)


def tell(sweep: Sweep, event: Event) -> None:
    """Enters an event and shows it."""
    if event.kind == "lane_refused" and not sweep.ledger.lanes:
        raise ValueError(event.facts["why"])
    if event.kind in ("lane_refused", "lane_trouble"):
        sweep.troubles[str(event.lane)] = event.facts["why"]
    if event.kind == "begins":
        sweep.searcher.order.begins(str(event.trial_id), event.facts["epochs"])
    if event.kind == "stage_ends":
        sweep.searcher.order.stage_ends(str(event.trial_id), event.facts["stage"])
    apply(sweep.ledger, event)
    sweep.on_event(event, sweep.ledger)


def lose_lanes(sweep: Sweep) -> str | None:
    """Gives up lanes whose run has ended by itself; an error if none is left."""
    for lane in [lane for lane in sweep.lanes if lane.is_over]:
        sweep.lanes.remove(lane)
        why = sweep.troubles.get(lane.name) or lane.error or "its workers died again and again while they were loading"
        ray.get(sweep.mailbox.lose_lane.remote(lane.name, why))
        if not sweep.lanes:
            return f"no lane is left: {why}"
    return None


def close_sweep(sweep: Sweep, patience: float) -> None:
    """Closes lanes and search, waiting at most `patience` seconds for them to give their resources back."""
    deadline = time.monotonic() + patience
    sweep.searcher.stop()
    sweep.mailbox.interrupt.remote()
    sweep.search.wait(deadline - time.monotonic())
    for lane in sweep.lanes:
        lane.wait(deadline - time.monotonic())
    if not all(lane.is_over for lane in sweep.lanes):
        remove_own_groups()
    if sweep.search.is_over:
        sweep.searcher.finish()
    ray.kill(sweep.mailbox)
