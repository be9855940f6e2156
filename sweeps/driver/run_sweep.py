"""Runs a sweep: opens lanes, starts Tune, keeps the records, and closes everything."""

import contextlib
import queue
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mtlib.runtime.errors import first_line
from results.records.epochs import compact
from results.records.heartbeat import send_heartbeats
from results.records.trials import COMPLETED, TrialRecord
from sweeps.cluster.connection import BackgroundRun, connected_to_ray
from sweeps.cluster.dashboard import LateDashboard
from sweeps.cluster.interrupts import Interrupts
from sweeps.cluster.placement_groups import remove_orphaned_groups
from sweeps.driver.ledger import Ledger, add_trial, apply_event, close_ledger, open_ledger, save_ledger
from sweeps.driver.limits import Limits
from sweeps.driver.scheduler_history import decided_reports
from sweeps.lanes.lane_pool import SCRATCH, LanePool, close_pool, open_pool, remove_ended_lanes, scale_pool, update_pool
from sweeps.lanes.mailbox import Mailbox
from sweeps.lanes.messages import Event
from sweeps.options import SweepPlan
from sweeps.reuse.weight_pruning import KeptWeights, prune_weights
from sweeps.search.scheduler import make_scheduler
from sweeps.search.searcher import SweepSearcher
from sweeps.search.study import open_study
from sweeps.search.trial_spec import TrialSpec
from sweeps.search.tune_run import start_tune

OnEvent = Callable[[Event, Ledger], None]

POLL_SECONDS = 1.0
"""How long the driver waits for events before it checks lanes and Ctrl-C, and shows progress."""
ENDING_SECONDS = 0.1
"""The same once all trials have ended: Tune is about to end, of which there is no event."""
SAVE_SHARE = 0.05
"""Most of the driver's time that saving the ledger takes."""
STOP_SECONDS = 4.0
"""After Ctrl-C: the time for trials to save their state, and then for lanes to close."""
CLOSING_SECONDS = 20.0
"""The time for lanes to close and for Tune to end, so that their resources are free; they need one or two seconds."""


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """How a sweep ended."""

    counts: Mapping[str, int]
    """Trials by status."""
    failures: Mapping[str, str]
    """Why each failed trial failed, by its id."""
    is_interrupted: bool = False
    interruption: str | None = None
    """Why it was interrupted, unless by a signal."""
    limit: str | None = None
    """The limit that ended it with trials left, as it was typed."""
    error: str | None = None
    """Why the sweep itself failed."""
    closing_errors: tuple[str, ...] = ()
    """Steps of closing the records that failed; the records can be read without them."""


@dataclass(kw_only=True)
class RunningSweep:
    """A sweep while it runs: its records, and everything that must be closed at its end."""

    plan: SweepPlan
    ledger: Ledger
    on_event: OnEvent
    mailbox: ActorHandle[Any]
    pool: LanePool
    searcher: SweepSearcher
    limits: Limits
    tune_run: BackgroundRun
    suggested: "queue.SimpleQueue[TrialSpec]"
    """Trials that Tune's thread has suggested and the ledger does not have yet."""
    pruned: KeptWeights = field(default_factory=dict)
    """The scores by which each trial still keeps best weights."""
    next_save: float = 0.0
    """When the ledger may be saved again, on the monotonic clock."""


def run_plan(
    plan: SweepPlan,
    on_event: OnEvent,
    known: Sequence[TrialRecord] = (),
    *,
    on_trained: Callable[[], None] = lambda: None,
) -> SweepOutcome:
    """Runs all trials of a plan that have not ended.

    Args:
        plan: the sweep; its folder exists.
        on_event: called in this thread with each event and the ledger after it.
        known: of a resumed sweep, its trials so far; those that are queued are run.
        on_trained: called once all trials have ended and their records are written, before lanes are closed.

    Raises:
        ValueError: no trial fits the cluster, there is no cluster, or a lane cannot load data or encoder.
        KeyboardInterrupt: interrupted twice.
    """
    limits = Limits(max_hours=plan.options.max_hours, max_steps=plan.options.max_steps)
    ledger = open_ledger(plan, known)
    save_ledger(ledger, plan.options.folder)
    with send_heartbeats(plan.options.folder, lambda: dict(ledger.progress)), Interrupts() as interrupts:
        try:
            error = run_on_ray(plan, ledger, on_event, on_trained, interrupts, limits)
        finally:
            closing_errors = close_records(plan, ledger)
    is_interrupted = interrupts.is_stop_requested and error is None
    why = interrupts.reason if is_interrupted else None
    limit = limits.reached if ledger.num_unfinished and not is_interrupted and error is None else None
    ended = replace(outcome_of(ledger, closing_errors), is_interrupted=is_interrupted, interruption=why)
    return replace(ended, limit=limit, error=error)


def close_records(plan: SweepPlan, ledger: Ledger) -> list[str]:
    """Closes the records of a sweep: writes the trials, deletes weights that no selection needs, compacts the tables.

    A trial whose predictions cannot be read has failed: nothing can be selected by them.

    Returns:
        What failed, a line each; readers do not need it.

    Raises:
        OSError: the records of trials cannot be written.
    """
    close_ledger(ledger)
    save_ledger(ledger, plan.options.folder)
    shutil.rmtree(plan.options.folder / SCRATCH, ignore_errors=True)
    closing_errors = []
    try:
        prune_weights(plan.options.folder, ledger.records.values(), plan.options.keep_models)
    except OSError as error:
        closing_errors.append(f"Weights that no selection needs could not be removed: {first_line(error)}")
    try:
        for trial, reason in compact(plan.options.folder).items():
            record = ledger.records[trial]
            if record.status in (*COMPLETED, "pruned"):  # an unfinished one is mended when it is resumed
                ledger.records[trial] = replace(record, status="failed", error=reason)
                ledger.is_changed = True
    except (OSError, ValueError) as error:
        closing_errors.append(f"Curves and predictions could not be compacted: {first_line(error)}")
    save_ledger(ledger, plan.options.folder)
    return closing_errors


def outcome_of(ledger: Ledger, closing_errors: Sequence[str]) -> SweepOutcome:
    """The outcome of a sweep that has run to its end, by its records."""
    failures = {name: record.error or "" for name, record in ledger.records.items() if record.status == "failed"}
    return SweepOutcome(counts=ledger.counts, failures=failures, closing_errors=tuple(closing_errors))


def run_on_ray(
    plan: SweepPlan,
    ledger: Ledger,
    on_event: OnEvent,
    on_trained: Callable[[], None],
    interrupts: Interrupts,
    limits: Limits,
) -> str | None:
    """Connects to Ray, runs the sweep and disconnects; returns why the sweep failed, None if it did not."""
    is_own = plan.options.address is None and not ray.is_initialized()
    with connected_to_ray(plan.options.address) as dashboard, with_dashboard(on_event, is_own) as on_event:
        interrupts.install_handlers()  # `ray.init` replaces that of SIGTERM
        remove_orphaned_groups()
        if dashboard:
            on_event(make_note(f"Ray's dashboard: {dashboard}"), ledger)
        sweep = start_sweep(plan, ledger, on_event, limits)
        counted = ((len(sweep.pool.lanes), "lane"), (plan.options.workers, "worker"))
        lanes, workers = (f"{number} {what}{'s' * (number != 1)}" for number, what in counted)
        handle_event(sweep, make_note(f"Opening {lanes} of {workers} each"))
        try:
            error = handle_until_end(sweep, interrupts)
            if error is None and not ledger.num_unfinished:
                save_ledger(ledger, plan.options.folder)
                on_trained()
            return error
        except RayError as error:
            return f"Ray failed: {first_line(error)}"
        finally:
            close_sweep(sweep, (CLOSING_SECONDS, STOP_SECONDS, 0.0)[min(interrupts.count, 2)])


@contextlib.contextmanager
def with_dashboard(on_event: OnEvent, is_own: bool) -> Iterator[OnEvent]:
    """What gets events; on a Ray of the sweep's own, with a note of its dashboard's address once that has started."""
    late = LateDashboard()

    def hear(event: Event, ledger: Ledger) -> None:
        on_event(event, ledger)
        url = late.poll(time.monotonic()) if event.kind in ("progress", "report") else None
        if url:
            on_event(make_note(f"Ray's dashboard: {url}"), ledger)

    try:
        yield hear if is_own else on_event
    finally:
        late.close()


def make_note(text: str) -> Event:
    """An event that prints a line."""
    return Event(kind="note", facts={"text": text})


def start_sweep(plan: SweepPlan, ledger: Ledger, on_event: OnEvent, limits: Limits) -> RunningSweep:
    """Starts mailbox, lanes and Tune; they start concurrently."""
    suggested: queue.SimpleQueue[TrialSpec] = queue.SimpleQueue()
    study = open_study(plan.options.folder, plan.options.name)
    known = list(ledger.records.values())
    mailbox = open_mailbox(plan)
    pool = open_pool(plan, mailbox)
    searcher = SweepSearcher(plan, study, suggested.put, max_live=pool.num_live, known=known)
    return RunningSweep(
        plan=plan,
        ledger=ledger,
        on_event=on_event,
        mailbox=mailbox,
        pool=pool,
        searcher=searcher,
        limits=limits,
        tune_run=start_tune(
            mailbox, searcher, make_scheduler(plan, decided_reports(plan, known)), plan.options.folder / SCRATCH
        ),
        suggested=suggested,
    )


def open_mailbox(plan: SweepPlan) -> ActorHandle[Any]:
    """The mailbox as an actor without a device, on the driver's node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = ray.remote(num_cpus=0)(Mailbox)
    mailbox: ActorHandle[Any] = actor.options(scheduling_strategy=here, name=f"{plan.options.name}-mailbox").remote()
    return mailbox


def handle_until_end(sweep: RunningSweep, interrupts: Interrupts) -> str | None:
    """Handles events until Tune has ended, or until `STOP_SECONDS` after an interruption or an error.

    Once a limit is reached Tune ends by itself, after the running trials' next epochs.

    Returns:
        Why the sweep failed, if it did.

    Raises:
        ValueError: a lane cannot load what the sweep asks for.
    """
    error: str | None = None
    deadline, is_winding_down = float("inf"), False
    while not sweep.tune_run.is_over and time.monotonic() < deadline:
        handle_events(sweep, POLL_SECONDS if sweep.ledger.num_unfinished else ENDING_SECONDS)
        if deadline < float("inf"):
            continue  # everything is ending already
        error = remove_ended_lanes(sweep.pool)
        if error is None and not is_winding_down:
            adjust_lanes(sweep, interrupts)
            is_winding_down = wind_down_at_limit(sweep)
        if interrupts.is_stop_requested or error:
            deadline = time.monotonic() + STOP_SECONDS
            sweep.searcher.stop()
            ray.get(sweep.mailbox.interrupt.remote())
    handle_events(sweep, 0.0)
    return error or sweep.tune_run.error


def wind_down_at_limit(sweep: RunningSweep) -> bool:
    """Starts no further trial, and ends the running ones after their next epoch, if a limit is reached."""
    if sweep.limits.reached is None:
        return False
    handle_event(sweep, make_note(f"{sweep.limits.reached} is reached: running trials end after their next epoch"))
    sweep.searcher.stop()
    ray.get(sweep.mailbox.wind_down.remote())
    return True


def adjust_lanes(sweep: RunningSweep, interrupts: Interrupts) -> None:
    """Opens and closes lanes as the cluster and the trials left change; stops a sweep that has no nodes for long."""
    for text in scale_pool(sweep.pool, sweep.ledger.num_unfinished):
        handle_event(sweep, make_note(text))
    sweep.searcher.max_live = sweep.pool.num_live
    minutes = sweep.plan.options.node_wait_minutes
    if sweep.pool.seconds_without_node > 60 * minutes:
        interrupts.request_stop(f"no node that a trial fits came within {minutes:g} minutes")


def handle_events(sweep: RunningSweep, timeout: float) -> None:
    """Waits for events, at most `timeout` seconds, and handles them."""
    events: list[Event] = ray.get(sweep.mailbox.take_events.remote(timeout))
    while not sweep.suggested.empty():
        add_trial(sweep.ledger, sweep.suggested.get())
    for event in events:
        handle_event(sweep, event)
    save_now_and_then(sweep)
    if any(event.kind == "ended" for event in events):
        prune_weights(
            sweep.plan.options.folder, sweep.ledger.records.values(), sweep.plan.options.keep_models, sweep.pruned
        )


def save_now_and_then(sweep: RunningSweep) -> None:
    """Saves the ledger so often that it takes at most `SAVE_SHARE` of the time: 1,000 trials take 44 ms.

    A kill loses nothing, as trials have records of their own.
    """
    began = time.monotonic()
    if began >= sweep.next_save:
        save_ledger(sweep.ledger, sweep.plan.options.folder)
        now = time.monotonic()
        sweep.next_save = now + (now - began) / SAVE_SHARE


def handle_event(sweep: RunningSweep, event: Event) -> None:
    """Updates lanes, searcher and ledger by an event, and shows it."""
    if event.kind == "lane_load_error" and not sweep.ledger.lanes:
        raise ValueError(event.facts["why"])
    update_pool(sweep.pool, event)
    sweep.limits.count(event)
    if event.kind == "starting_point":
        sweep.searcher.order.mark_started(str(event.trial_id), event.facts["epochs"])
    if event.kind == "stage_finished":
        sweep.searcher.order.mark_stage_done(str(event.trial_id), event.facts["stage"])
    apply_event(sweep.ledger, event)
    sweep.on_event(event, sweep.ledger)


def close_sweep(sweep: RunningSweep, seconds: float) -> None:
    """Closes lanes and Tune, waiting at most `seconds` for them to release their resources."""
    deadline = time.monotonic() + seconds
    sweep.searcher.stop()
    sweep.mailbox.interrupt.remote()
    close_pool(sweep.pool, deadline)
    sweep.tune_run.wait(deadline - time.monotonic())
    if sweep.tune_run.is_over:
        sweep.searcher.finish()
    ray.kill(sweep.mailbox)
