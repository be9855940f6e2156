"""One trial on a lane: where it begins, its training stage by stage, what it leaves to others, and how it ended.

Every worker runs this. The first one alone touches files and talks with the mailbox; what it finds, it tells.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mtlib.checkpoints.state import DiskFull, StateFolder, drop_states, newest_numbers, read_state, saved_states
from mtlib.errors import TrainingDiverged, first_line
from mtlib.runtime.workers import gather_from_workers, num_workers, worker_rank
from mtlib.stages.keys import Cut
from mtlib.train import train
from mtlib.training.step import Interrupted
from sweeps.lanes.loaded_trial import Course
from sweeps.lanes.messages import FinalStatus
from sweeps.lanes.reporter import TrialReporter
from sweeps.reuse.file_locks import Claim, claim_file
from sweeps.reuse.finished_trials import TrialFolder, find_finished, note_finished, score_names
from sweeps.reuse.stage_store import claim, has_stage
from sweeps.reuse.starting_point import StartingPoint, epochs_of, prepare_starting_point, store_cut, truncate_trial

LOCK_FILE = ".lock"
"""In a trial's folder, held by whoever trains it: a driver that was killed may have left workers behind."""
WAIT_SECONDS = 1.0
"""Between two looks at a stage that another sweep is training."""


@dataclass(kw_only=True)
class Rights:
    """What the first worker holds while it trains: its trial, and the stage that others wait for."""

    trial: Claim | None = None
    stage: Claim | None = None

    def release(self) -> None:
        """Gives both back."""
        for held in filter(None, (self.stage, self.trial)):
            held.release()
        self.stage = self.trial = None


@dataclass(frozen=True, kw_only=True)
class TrialRun:
    """A trial on its way through a lane."""

    course: Course
    place: TrialFolder
    link: TrialReporter
    device: torch.device
    rights: Rights = field(default_factory=Rights)


def tell(ask: Callable[[], Any]) -> Any:
    """What the first worker found out, on all workers."""
    return gather_from_workers(ask() if worker_rank() == 0 else None)[0]


def run_trial(run: TrialRun) -> tuple[FinalStatus, str | None]:
    """Trains a trial from where it can begin; how it ended and, if it failed, why.

    Raises:
        Exception: one that perhaps not all workers met.
        RuntimeError: another worker has died.
    """
    try:
        while True:
            beginning = settle(run)
            stopped = run.link.replay(beginning.epochs, run.course.config)
            if stopped is not None:
                end_early(run, stopped)
                return "pruned", None
            if beginning.is_whole:
                note_end(run)
                return ("complete" if beginning.shared.taken_from is None else "reused"), None
            if go_on(run):
                return end_of_training(run), None
    except Interrupted:
        return "interrupted", None
    except (TrainingDiverged, ValueError) as error:
        num_workers()  # raises where the process group has gone: torch says that with a ValueError, too
        return "failed", describe(error)
    finally:
        run.rights.release()


def end_early(run: TrialRun, epochs: int) -> None:
    """Ends a trial behind an epoch that it had taken over, or trained before: what it has of later ones goes."""
    if worker_rank() == 0:
        run.link.shares(truncate_trial(run.place, epochs))


def end_of_training(run: TrialRun) -> FinalStatus:
    """How a trial whose training is over has ended; equal ones may take it over as soon as others may claim its end."""
    if run.link.is_stopped:
        return "pruned"
    note_end(run)
    return "complete"


def note_end(run: TrialRun) -> None:
    """Notes a whole trial for equal ones, if it may be shared."""
    if worker_rank() == 0 and run.place.store is not None:
        with contextlib.suppress(OSError):  # nobody will take it over
            note_finished(run.place, run.course.cuts[-1])


def settle(run: TrialRun) -> StartingPoint:
    """Waits until nobody else trains what the trial needs next, and puts its files where it begins.

    Raises:
        Interrupted: the trial is not wanted any more.
    """
    notes: list[str] = []
    while True:
        beginning: StartingPoint | None = tell(lambda: try_to_begin(run, notes))
        if beginning is not None:
            return beginning
        if not tell(lambda: wait_once(run)):
            raise Interrupted("ended while another sweep trained what it needs")


def wait_once(run: TrialRun) -> bool:
    """Lets a little time pass; whether the trial is still wanted."""
    time.sleep(WAIT_SECONDS)
    return run.link.is_wanted()


def try_to_begin(run: TrialRun, notes: list[str]) -> StartingPoint | None:
    """On the first worker: where the trial begins; None while somebody else has it, or the stage that it needs.

    Args:
        run: the trial.
        notes: what a person should be told once it begins; what is found now is added.
    """
    place, rights = run.place, run.rights
    is_new = rights.trial is None
    if rights.trial is None:
        place.path.mkdir(parents=True, exist_ok=True)
        rights.trial = claim_file(place.path / LOCK_FILE)
    if rights.trial is None:
        run.link.report_waiting("a worker that another run of this sweep has left behind still trains it")
        return None
    beginning = look(run, notes)
    if is_new:
        keep_missed(run, beginning.epochs)
    while beginning.epochs < run.course.cuts[-1].total_epochs:
        cut = run.course.next_end(beginning.epochs)
        if not take_right(run, cut):
            run.link.report_waiting(f"stage {cut.stage}, which it needs, is being trained elsewhere")
            return None
        if not is_kept(run, cut):
            break
        before, beginning = beginning, look(run, notes)  # somebody has finished it just before it could be claimed
        if beginning.epochs == before.epochs:
            break  # it is there, and cannot be taken
    run.link.report_starting_point(replace(beginning, note="; ".join(notes) or None))
    return beginning


def look(run: TrialRun, notes: list[str]) -> StartingPoint:
    """Where the trial can begin now; its files are put there."""
    beginning = prepare_starting_point(run.place, run.course.config, run.course.origin, run.course.cuts)
    if beginning.note is not None and beginning.note not in notes:
        notes.append(beginning.note)
    return beginning


def keep_missed(run: TrialRun, epochs: int) -> None:
    """Keeps the stage that the trial stands at the end of, if a kill came between that end and its keeping."""
    ends = [cut for cut in run.course.cuts if cut.is_end and cut.total_epochs == epochs]
    if run.place.store is None or not ends or is_kept(run, ends[0]):
        return
    newest = next(map(read_state, saved_states(run.place.states)), None)  # whole: damage must not be handed on
    if newest is not None and epochs_of(run.course.config, newest.numbers) == epochs and newest.numbers["step"] == 0:
        keep_end(run, ends[0].stage)


def take_right(run: TrialRun, cut: Cut) -> bool:
    """Takes the right to train up to a cut, instead of the one held so far; False if somebody else has it."""
    store, rights = run.place.store, run.rights
    if store is None:
        return True
    if rights.stage is not None:
        rights.stage.release()
    rights.stage = claim(store, cut.key)
    return rights.stage is not None


def is_kept(run: TrialRun, cut: Cut) -> bool:
    """Whether a cut is in the store, or the end of an equal trial that is noted."""
    if run.place.store is None:
        return False
    is_last = cut == run.course.cuts[-1]
    is_whole = is_last and bool(find_finished(run.place, cut, score_names(run.course.config)))
    return is_whole or has_stage(run.place.store, cut.key)


def go_on(run: TrialRun) -> bool:
    """Trains the trial from its newest state; False if it should look again for what others have trained."""
    course, place = run.course, run.place
    is_left = False

    def on_stage(stage: int) -> bool:
        nonlocal is_left
        if place.store is None:
            return True
        is_left = not tell(lambda: leave_stage(run, stage))
        return not is_left

    states = replace(place.states, keeps_end=keeps_stages(place) and course.can_be_longer)
    train(
        course.config,
        course.corpus,
        course.encoder,
        device=run.device,
        wrap=wrap_for(run.device),
        on_step=run.link.on_step,
        on_epoch=run.link.on_epoch,
        on_stage=on_stage,
        states=states,
    )
    return not is_left


def keeps_stages(place: TrialFolder) -> bool:
    """Whether there is a store that may hold something."""
    return place.store is not None and place.store.most_bytes != 0


def leave_stage(run: TrialRun, stage: int) -> bool:
    """On the first worker: keeps a finished stage for others; whether to go on with the next one here and now."""
    course = run.course
    cut, is_last = course.end_of(stage), stage + 1 == len(course.config.stages)
    keep_end(run, stage)
    if is_last:
        return True  # the right to its end is held until it is noted as finished
    if run.rights.stage is not None:
        run.rights.stage.release()
        run.rights.stage = None
    following = course.next_end(cut.total_epochs)
    return take_right(run, following) and not is_kept(run, following)


def keep_end(run: TrialRun, stage: int) -> None:
    """On the first worker: keeps the state at a stage's end, if some trial could go on from it."""
    course, is_last = run.course, stage + 1 == len(run.course.config.stages)
    if is_last and not course.can_be_longer:
        return
    numbers = newest_numbers(run.place.states) or {}
    seconds = float(numbers.get("seconds", 0.0))
    run.link.report_stage_finished(stage, store_cut(run.place, course.end_of(stage), seconds, is_spare=is_last))


def finish_files(place: TrialFolder, how: FinalStatus, keeps_states: bool = False) -> None:
    """On the first worker, once a trial's end is on record: removes the states, which nothing goes on from."""
    if how != "interrupted" and not keeps_states:
        drop_states(place.states)


def wrap_for(device: torch.device) -> Callable[[nn.Module], nn.Module]:
    """How the objective is wrapped: not at all for one worker, else so that gradients are averaged."""
    if num_workers() == 1:
        return lambda objective: objective
    devices = [device] if device.type == "cuda" else None
    # Tasks take turns, so that in any step the heads of the others have no gradient.
    return lambda objective: DistributedDataParallel(objective, device_ids=devices, find_unused_parameters=True)


def describe(error: BaseException) -> str:
    """An error in one line, with its kind unless it is a message for people."""
    text = first_line(error)
    return text if isinstance(error, ValueError | TrainingDiverged | DiskFull) else f"{type(error).__name__}: {text}"


def states_of(folder: Path, trial_id: str, every_steps: int) -> StateFolder:
    """Where a trial of the sweep in `folder` keeps its states."""
    return StateFolder(path=folder / "trials" / trial_id / "checkpoint", every_steps=every_steps)
