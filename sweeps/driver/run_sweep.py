"""Runs a sweep: opens lanes, starts Tune, hears what happens, and closes everything."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.fs as fs
import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError

from mtlib.runtime.errors import first_line, require
from mtlib.runtime.storage import local_path, open_folder
from mtlib.tasks import in_order
from results.answers.next_commands import resume_command
from results.records.driver_file import Ownership
from results.records.race import RaceRecord
from results.records.tables import write_caches
from results.records.trial_folder import TrialEnd, TrialStart, read_trial, write_end, write_start
from results.records.trials import STOPPED_BY, TrialRecord, read_sweep, write_sweep
from sweeps.cluster.background_run import BackgroundRun
from sweeps.cluster.capacity import (
    describe_cluster,
    describe_idle_gpus,
    describe_lane,
    fits_cluster,
)
from sweeps.cluster.connection import connected_to_ray, disconnect
from sweeps.cluster.interrupts import Interrupts
from sweeps.cluster.placement import on_node
from sweeps.cluster.ray_services import RayServices, find_services
from sweeps.driver.dispatcher import Dispatcher
from sweeps.driver.limits import reached_limit
from sweeps.driver.race_watch import RaceWatch
from sweeps.driver.ray_metrics import SweepMetrics
from sweeps.driver.trials.changes import note
from sweeps.driver.trials.messages import Message
from sweeps.driver.trials.table import Event, TrialTable
from sweeps.lanes.channel import MAX_CALLS, Channel, channel_name
from sweeps.lanes.lanes import Lanes, close, note_event, remove_ended, scale, why_none_opens
from sweeps.lanes.silent_workers import SilentWorkers
from sweeps.lanes.stored_inputs import StoredInputs, put_inputs
from sweeps.lanes.training_inputs import TrainingInputs
from sweeps.options import SweepPlan
from sweeps.reuse.weight_pruning import KeptWeights, prune_weights
from sweeps.search.scheduler import make_scheduler
from sweeps.search.searcher import SweepSearcher
from sweeps.search.study import journal_path, open_study, save_journal
from sweeps.search.tune_run import SweepStopper, start_tune

OnEvent = Callable[[Event], None]

POLL_SECONDS = 1.0
"""How long the driver waits for events before it checks lanes and Ctrl-C, and shows progress."""
STOP_SECONDS = 4.0
"""After Ctrl-C: the time for trials to save their state, and then for lanes to close: at most 8 s,
as a person waits at the terminal for it. What has not been saved by then is trained again."""
SAVE_SECONDS = 60.0
"""The time for trials to save their state where no signal ends the sweep."""
LOST_SECONDS = 20.0
"""That time where Ray itself is lost: its client ends the driver, in silence, 60 s after the loss."""
CLOSING_SECONDS = 15.0
"""The time for lanes to close and for Tune to end, so that their resources are free; they need a few seconds."""
GONE_SECONDS = 1.0
"""Between the last two looks for the folder of a sweep that has failed."""
MESSAGES_SECONDS = 2.0
"""The time for the thread of messages to end, which needs none."""
JOURNAL_SECONDS = 60.0
"""Between two copies of Optuna's journal to a bucket."""


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
    is_lost: bool = False
    """Whether it is not this driver's any more, or its folder is gone, as `error` says."""
    verdict: str = ""
    """Whether the claim that the sweep checks is `shown`, `excluded` or `open`; empty if it checks none."""
    closing_errors: tuple[str, ...] = ()
    """Steps of closing the records that failed; the records can be read without them."""


@dataclass(frozen=True, kw_only=True)
class SweepRun:
    """What a run of a sweep is given; its parts change as it runs."""

    table: TrialTable
    inputs: TrainingInputs
    on_event: OnEvent
    on_trained: Callable[[], None]
    ownership: Ownership
    interrupts: Interrupts
    scratch: Path
    """Folder on the driver's disk for files of Ray and Optuna."""
    began: float = field(default_factory=time.monotonic)
    """On the monotonic clock."""

    @property
    def journal(self) -> Path:
        """Optuna's, on the driver's disk."""
        return journal_path(self.table.plan.options.folder, self.scratch)

    def note(self, line: str) -> None:
        """Prints a line."""
        self.on_event(note(line))

    def note_all(self, lines: Iterable[str]) -> None:
        """Prints lines, each once it is there."""
        for line in lines:
            self.note(line)


@dataclass(kw_only=True)
class RunningSweep:
    """A sweep on Ray: everything that must be closed at its end."""

    run: SweepRun
    dispatcher: Dispatcher
    services: RayServices
    lanes: Lanes
    silent_workers: SilentWorkers
    searcher: SweepSearcher
    stopper: SweepStopper
    tune_run: BackgroundRun
    metrics: SweepMetrics
    race: RaceWatch | None = None
    """The race, where the sweep is one."""
    failure: str | None = None
    """Why the sweep cannot go on."""
    next_journal: float = 0.0
    """When its copy in a bucket is renewed, on the monotonic clock."""
    housekeeping: threading.Thread | None = None
    """The deletion of weights and copying of the journal that was begun last."""
    must_prune: bool = False
    """Whether trials have ended since weights were deleted last."""
    pruned: KeptWeights = field(default_factory=dict)
    """The scores by which each trial still keeps best weights."""


def run_plan(
    table: TrialTable,
    inputs: TrainingInputs,
    on_event: OnEvent,
    ownership: Ownership,
    *,
    on_trained: Callable[[], None] = lambda: None,
) -> SweepOutcome:
    """Runs all trials of a plan that have not ended.

    Args:
        table: the trials so far, of a plan whose folder exists; those that are queued are run.
        inputs: what its trials are trained from.
        on_event: called in this thread with each event; the table may know more by then.
        ownership: of the sweep, which shows its progress.
        on_trained: called once all trials have ended and their records are written, before lanes are closed.

    Raises:
        ValueError: no trial fits the machine, there is no cluster, starting weights have become unreadable, or a lane
            cannot load what it needs.
        KeyboardInterrupt: interrupted twice.
    """
    plan = table.plan
    ownership.find_progress = lambda: table.progress
    scratch = TemporaryDirectory(prefix="sweep-", ignore_cleanup_errors=True)
    with scratch, Interrupts() as interrupts:
        run = SweepRun(
            table=table,
            inputs=inputs,
            on_event=on_event,
            on_trained=on_trained,
            ownership=ownership,
            interrupts=interrupts,
            scratch=Path(scratch.name),
        )
        error = None
        try:
            error = run_on_ray(run)
        finally:
            disconnect()  # a Ray that ends after the training has no effect on the ranking
            close_table(table)
            ownership.write()  # nothing runs any more
            if error is not None:  # perhaps because the folder is gone, which takes two looks to be sure of
                time.sleep(GONE_SECONDS)
                ownership.write()
            closing_errors = []
            if ownership.why_lost is None:  # otherwise another driver writes them
                if local_path(plan.options.folder) is None:
                    run.note("Writing the tables of the sweep to its bucket ...")
                with contextlib.suppress(OSError):  # it is a copy that nothing reads back
                    save_journal(plan.options.folder, run.journal)
                closing_errors = close_records(plan, table.records)
    if ownership.why_lost is not None:
        error = ownership.why_lost if error in (None, ownership.why_lost) else f"{ownership.why_lost} ({error})"
    is_interrupted = interrupts.is_stop_requested and error is None
    limit = reached_limit(table, run.began) if table.num_left and not is_interrupted and error is None else None
    if limit is not None:
        with contextlib.suppress(OSError, ValueError):  # the end of the command's output says it too
            write_sweep(plan.options.folder, {**read_sweep(plan.options.folder), STOPPED_BY: limit})
    return replace(
        outcome_of(table, closing_errors),
        is_interrupted=is_interrupted,
        interruption=interrupts.reason if is_interrupted else None,
        limit=limit,
        error=error,
        is_lost=ownership.why_lost is not None,
    )


def close_records(plan: SweepPlan, records: Mapping[str, TrialRecord]) -> list[str]:
    """Closes the records of a sweep: deletes weights that no selection needs, and writes the tables of all trials.

    A trial whose predictions cannot be read has failed: nothing can be selected by them.

    Returns:
        What failed, a line each; readers do not need it.
    """
    closing_errors = []
    try:
        prune_weights(plan.options.folder, records.values(), plan.options.keep_models)
    except OSError as error:
        closing_errors.append(f"Weights that no selection needs could not be removed: {first_line(error)}")
    try:
        save_tables(plan, records)
    except (OSError, ValueError) as error:
        closing_errors.append(f"The tables of the sweep could not be written: {first_line(error)}")
    return closing_errors


def save_tables(plan: SweepPlan, records: Mapping[str, TrialRecord]) -> None:
    """Writes the tables of all trials, with those that have not begun."""
    trained = {name for record in records.values() for name in record.best if name in plan.tasks}
    tasks = in_order(trained | set(plan.space.base.active_tasks))
    write_caches(plan.options.folder, list(records.values()), tasks)


def close_table(table: TrialTable) -> None:
    """Marks running trials as interrupted: nothing more is heard of them."""
    with table.lock:
        for row in table.rows.values():
            row.progress = None
            if row.record.status == "running":
                row.record = replace(row.record, status="interrupted")


def outcome_of(table: TrialTable, closing_errors: Sequence[str]) -> SweepOutcome:
    """Returns the outcome of a sweep that has run to its end, by its records."""
    failures = {name: record.error or "" for name, record in table.records.items() if record.status == "failed"}
    verdict = "" if table.plan.options.claim is None else (table.race or RaceRecord()).verdict
    return SweepOutcome(counts=table.counts, failures=failures, verdict=verdict, closing_errors=tuple(closing_errors))


def run_on_ray(run: SweepRun) -> str | None:
    """Connects to Ray, runs the sweep and disconnects; returns why the sweep failed, None if it did not."""
    plan, interrupts = run.table.plan, run.interrupts
    if plan.options.address is None:
        run.note("Starting Ray on this machine ...")
    with connected_to_ray(plan.options.address, run.inputs.num_bytes, run.note) as dashboard:
        interrupts.install_handlers()  # `ray.init` replaces that of SIGTERM
        if plan.options.address is None:
            rule = f"a trial must fit this machine, which has {describe_cluster()}"
            require(fits_cluster(plan), rule, f"one that needs {describe_lane(plan)}")
        if dashboard:
            run.note(f"Ray's dashboard: {dashboard}")
        if (problem := describe_idle_gpus(plan)) is not None:
            run.note(problem)
        try:
            sweep = start_sweep(run, put_inputs(run.inputs, plan.data_folder, plan.options.cache_folder))
        except RayError as lost:
            return describe_ray_error(run, lost)
        try:
            error = handle_until_end(sweep)
            if error is None and sweep.race is not None:
                sweep.run.note_all(sweep.race.finish())
            if error is None and not run.table.num_left:
                with contextlib.suppress(OSError, ValueError):  # they are written again, and an error is told then
                    save_tables(plan, run.table.records)
                run.on_trained()
            return error
        except RayError as lost:
            return describe_ray_error(run, lost)
        except BrokenPipeError:  # nobody reads the progress any more; it says nothing about the storage
            raise
        except OSError as fault:
            return f"the storage cannot be used: {first_line(fault)}"
        finally:
            sweep.services.check()
            seconds = (CLOSING_SECONDS, STOP_SECONDS, 0.0)[min(interrupts.count, 2)]
            close_sweep(sweep, seconds if sweep.services.are_well else 0.0)


def describe_ray_error(run: SweepRun, error: RayError) -> str | None:
    """Returns why a sweep cannot go on, in a line; None after a signal, which may have gone to Ray's processes too."""
    announce_stop(run)
    return None if run.interrupts.count else f"Ray failed: {first_line(error)}"


def announce_stop(run: SweepRun) -> None:
    """Says how to go on after a signal whose sender may not wait for the summary, once."""
    name, run.interrupts.unannounced = run.interrupts.unannounced, None
    if name is not None:
        run.note(f"Stopped by {name}. Continue with: {resume_command(run.table.plan.options.folder)}")


def start_sweep(run: SweepRun, inputs: StoredInputs) -> RunningSweep:
    """Starts channel, lanes and Tune; lanes and Tune start concurrently."""
    # What may fail comes first: nothing else has to be closed then.
    table, plan, folder = run.table, run.table.plan, run.table.plan.options.folder
    node = ray.get_runtime_context().get_node_id()
    actor = on_node(Channel, node, max_concurrency=MAX_CALLS)  # without a device
    channel: ActorHandle[Any] = actor.options(name=channel_name(plan.options.name)).remote()
    study = open_study(run.journal, plan.options.name, plan.space.metric)
    race = None if plan.race is None else RaceWatch(folder, table)
    scheduler, metrics, services, stopper = make_scheduler(table), SweepMetrics(table), find_services(), SweepStopper()

    # What runs: messages, lanes, and Tune.
    dispatcher = Dispatcher(table, channel)
    tell = dispatcher.tell
    lanes = Lanes(
        table=table, tell=tell, channel=channel, inputs=inputs, driver_id=run.ownership.id, scratch=run.scratch
    )
    run.note_all(scale(lanes, table.num_left))
    counted = ((len(lanes.runs), "lane"), (plan.options.workers, "worker"))
    opened, workers = (f"{number} {what}{'s' * (number != 1)}" for number, what in counted)
    run.note(f"Opening {opened} of {workers} each")
    searcher = SweepSearcher(
        table,
        study,
        tell,
        max_live=lanes.num_live,
        is_decision_due=lambda records: race is not None and race.is_due(records),
    )
    return RunningSweep(
        run=run,
        dispatcher=dispatcher,
        services=services,
        lanes=lanes,
        silent_workers=SilentWorkers(table=table, tell=tell, longest=60 * plan.options.silent_minutes),
        searcher=searcher,
        stopper=stopper,
        metrics=metrics,
        tune_run=start_tune(tell, searcher, scheduler, stopper, open_folder(folder), run.scratch),
        race=race,
    )


def handle_until_end(sweep: RunningSweep) -> str | None:
    """Handles events until Tune has ended, or until `seconds_to_save` after an interruption or an error.

    Once a limit is reached Tune ends by itself, after the running trials' next epochs.

    Returns:
        Why the sweep failed, if it did.

    Raises:
        ValueError: a lane cannot load what it needs.
    """
    error: str | None = None
    deadline, is_winding_down = float("inf"), False
    while not sweep.tune_run.is_over and time.monotonic() < deadline:
        handle_events(sweep, POLL_SECONDS)
        announce_stop(sweep.run)
        if deadline < float("inf"):
            if not any(row.runs for row in list(sweep.run.table.rows.values())):
                break
            continue  # everything is ending already
        sweep.services.check()
        if not sweep.run.interrupts.count:  # a signal may have gone to Ray's processes too
            if sweep.services.are_well:
                sweep.run.note_all(remove_ended(sweep.lanes))
                error = why_none_opens(sweep.lanes)
            error = error or sweep.services.why_lost
        error = error or sweep.failure or sweep.run.ownership.why_lost
        if error is None:
            keep_house(sweep)
            if sweep.services.are_well:
                sweep.run.note_all(sweep.silent_workers.watch())
        if error is None and not is_winding_down and sweep.services.are_well:
            if sweep.race is not None:
                sweep.run.note_all(sweep.race.update(sweep.run.table.records.values()))
            adjust_lanes(sweep)
            is_winding_down = wind_down_at_limit(sweep)
        if sweep.run.interrupts.is_stop_requested or error:
            deadline = time.monotonic() + seconds_to_save(sweep)
            sweep.dispatcher.tell(Message(kind="stop"))
    sweep.stopper.stop()
    handle_events(sweep, 0.0)
    return error or (None if sweep.run.interrupts.count else sweep.tune_run.error)


def seconds_to_save(sweep: RunningSweep) -> float:
    """Returns how long trials may take to save their state at a sweep's early end: not at all once it is another's."""
    if sweep.run.ownership.why_lost:
        return 0.0
    if sweep.run.interrupts.count:
        return STOP_SECONDS
    return SAVE_SECONDS if sweep.services.are_well else LOST_SECONDS


def wind_down_at_limit(sweep: RunningSweep) -> bool:
    """Starts no further trial, and ends the running ones after their next epoch, if a limit is reached."""
    reached = reached_limit(sweep.run.table, sweep.run.began)
    if reached is None:
        return False
    sweep.run.note(f"{reached} is reached: running trials end after their next epoch")
    sweep.dispatcher.tell(Message(kind="wind_down"))
    return True


def adjust_lanes(sweep: RunningSweep) -> None:
    """Opens and closes lanes as the cluster and the trials left change; stops a sweep that has no nodes for long."""
    sweep.run.note_all(scale(sweep.lanes, sweep.run.table.num_left))
    sweep.searcher.max_live = sweep.lanes.num_live
    minutes = sweep.run.table.plan.options.node_wait_minutes
    if time.monotonic() - sweep.lanes.without_node_since > 60 * minutes:
        sweep.run.interrupts.reason = f"no node that a trial fits came within {minutes:g} minutes"


def keep_house(sweep: RunningSweep) -> None:
    """Deletes weights that no selection needs and copies the journal, in a thread: the storage may be slow or away."""
    is_due = sweep.must_prune or time.monotonic() >= sweep.next_journal
    if not is_due or (sweep.housekeeping is not None and sweep.housekeeping.is_alive()):
        return
    table = sweep.run.table
    options, records = table.plan.options, list(table.records.values()) if sweep.must_prune else []
    sweep.must_prune, sweep.next_journal = False, time.monotonic() + JOURNAL_SECONDS

    def keep() -> None:
        with contextlib.suppress(OSError):  # both are done again
            prune_weights(options.folder, records, options.keep_models, sweep.pruned)
            save_journal(options.folder, sweep.run.journal)

    sweep.housekeeping = threading.Thread(target=keep, name="housekeeping", daemon=True)
    sweep.housekeeping.start()


def handle_events(sweep: RunningSweep, timeout: float) -> None:
    """Waits for events, at most `timeout` seconds, and handles them."""
    events = sweep.dispatcher.take_events(timeout)
    for event in events or [Event(kind="tick")]:
        handle_event(sweep, event)
    sweep.must_prune = sweep.must_prune or any(event.kind == "ended" for event in events)


def handle_event(sweep: RunningSweep, event: Event) -> None:
    """Does what follows from an event, and shows it."""
    if event.kind == "failed":
        sweep.failure = event.facts["why"]
        return
    if event.kind == "lane_failed" and not (event.facts["refused"] or sweep.lanes.ever_open):
        raise ValueError(event.facts["why"])
    if event.kind == "ended" and event.facts["how"] == "interrupted" and event.facts["error"]:
        sweep.failure = sweep.failure or f"{event.trial_id} was interrupted: {event.facts['error']}"
    note_event(sweep.lanes, event)
    if event.kind == "ended" and event.facts["how"] == "failed" and "wall_seconds" not in event.facts:
        assert event.record is not None
        record_death(open_folder(sweep.run.table.plan.options.folder), event.record, event)
    sweep.metrics.update()
    sweep.run.on_event(event)


def record_death(root: fs.SubTreeFileSystem, record: TrialRecord, event: Event) -> None:
    """Records the end of a trial that failed with its workers, and its start, if they died before they wrote it."""
    if read_trial(root, record.trial_id).start is None:
        names = {field.name for field in fields(TrialStart)} & {field.name for field in fields(TrialRecord)}
        start = {name: getattr(record, name) for name in names}
        write_start(root, TrialStart(**{**start, "started": record.started or "", "host": record.host or ""}))
    end = TrialEnd(how="failed", error=event.facts["error"], time=event.time, wall_seconds=record.wall_seconds)
    write_end(root, record.trial_id, end)


def close_sweep(sweep: RunningSweep, seconds: float) -> None:
    """Closes lanes and Tune, waiting at most `seconds` for them to release their resources, and ends housekeeping."""
    deadline = time.monotonic() + seconds
    sweep.stopper.stop()
    sweep.dispatcher.tell(Message(kind="stop"))
    close(sweep.lanes, deadline)
    sweep.tune_run.wait(deadline - time.monotonic())
    if sweep.services.are_well:
        sweep.dispatcher.close(MESSAGES_SECONDS)
    if sweep.housekeeping is not None:
        sweep.housekeeping.join()  # the records are closed next, which deletes weights too
