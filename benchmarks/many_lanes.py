"""What 64, 512 and 1,000 lanes cost channel and driver, and how long a lane then waits for a verdict.

Command:  python benchmarks/many_lanes.py [--lanes 64 512 1000] [--seconds 60]
Cost:     about 2 minutes for each number of lanes
Prints:   for each number of lanes: percent of a core that the channel and the driver take for each lane; the median,
          the 99th percentile and the longest wait for a verdict; and the memory that channel and driver grow by for
          each lane

Channel, table of trials, searcher, study, records and heartbeat are those of a sweep, in a scratch folder. Lanes are
simulated in a few Ray actors in place of training: each sends its progress every second, as soon as the last one is
answered, and ends an epoch every 10 s, of thirty. The driver stands in for Tune, which passes on what the table says:
it lets the searcher suggest, and gives each verdict at once.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if not __package__:  # started as a script: imports begin at the project's folder, not at this one
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import numpy as np
import psutil
import ray

from mtlib.config.training import StageConfig
from mtlib.config.trial import TrialConfig
from results.records.driver_file import Ownership
from results.records.trials import write_sweep
from search_spaces.domain import Float
from search_spaces.space import SearchSpace
from sweeps.cluster.connection import connected_to_ray
from sweeps.cluster.placement import on_node
from sweeps.driver.dispatcher import Dispatcher
from sweeps.driver.trials.messages import Message
from sweeps.driver.trials.table import open_table
from sweeps.lanes.channel import MAX_CALLS, Channel, channel_name
from sweeps.lanes.reporter import PROGRESS_SECONDS
from sweeps.options import SweepOptions, SweepPlan
from sweeps.search.searcher import SweepSearcher
from sweeps.search.study import open_study

EPOCHS, EPOCH_SECONDS = 30, 10.0
LANES_PER_ACTOR = 250
TASKS = ("sst", "qqp", "sts")
NUM_POINTS = 40
"""Points of the curves that a lane reports with an epoch, about as many as three tasks have."""


class SimulatedLanes:
    """Lanes that speak to the channel as lanes do, and train nothing."""

    def __init__(self, channel: Any, names: list[str], seconds: float) -> None:
        self._channel, self._names, self._end = channel, names, time.monotonic() + seconds
        self._waits: list[float] = []

    async def run(self) -> list[float]:
        """Seconds for which each epoch has waited for its verdict."""
        await asyncio.gather(*(self._run_lane(name) for name in self._names))
        return self._waits

    async def _run_lane(self, lane: str) -> None:
        await asyncio.sleep(EPOCH_SECONDS * random.random())
        workers = {"nodes": ["n"], "workers": [("n", 1)]}
        await self._channel.ask.remote(Message(kind="workers_started", lane=lane, facts=workers))
        while time.monotonic() < self._end:
            own = await self._channel.ask.remote(Message(kind="wants_trial", lane=lane, facts={"host": "here"}))
            if own == "close":
                return
            if own != "wait":
                await self._train(own.trial_id, own.attempt)

    async def _train(self, trial_id: str, attempt: int) -> None:
        """A trial from its start to its end."""
        here: dict[str, Any] = {"trial_id": trial_id, "attempt": attempt}
        begin = {"state": "", "epochs": 0, "shared_steps": 0, "taken_from": None, "notes": []}
        await self._channel.tell.remote(Message(kind="starting_point", **here, facts=begin))
        answered: asyncio.Future[Any] | None = None
        for epoch in range(1, EPOCHS + 1):
            for second in range(int(EPOCH_SECONDS / PROGRESS_SECONDS)):
                step = int((epoch - 1) * EPOCH_SECONDS / PROGRESS_SECONDS) + second + 1
                if answered is None or answered.done():
                    sent = self._channel.ask.remote(Message(kind="progress", **here, facts=progress(epoch, step)))
                    answered = asyncio.ensure_future(sent)
                await asyncio.sleep(PROGRESS_SECONDS)
            if time.monotonic() > self._end:
                break
            asked = time.monotonic()
            await self._channel.ask.remote(Message(kind="epoch", **here, facts=epoch_report(epoch)))
            self._waits.append(time.monotonic() - asked)
        spent = {"wall_seconds": EPOCHS * EPOCH_SECONDS, "peak_memory_bytes": 10**9}
        left = {"status": "complete", "error": None, "spent": spent}
        await self._channel.tell.remote(Message(kind="left", **here, facts=left))


def progress(epoch: int, step: int) -> dict[str, Any]:
    """What a lane sends while it trains."""
    facts: dict[str, Any] = {"stage": 0, "epoch": epoch, "step": step, "num_steps": 300, "learning_rate": 1e-5}
    return {**facts, "num_rows": 32 * step, "num_tokens": 900 * step, "peak_memory_bytes": 10**9}


def epoch_report(epoch: int) -> dict[str, Any]:
    """What a lane sends at an epoch's end."""
    scores = {name: random.random() for name in (*TASKS, "overall")}
    place = {"step": 10 * epoch, "epoch": epoch, "seconds": 10.0}
    shared = {**place, "task": "sst", "split": "train", "value": 0.5}
    points = [{**shared, "metric": f"term{at}"} for at in range(NUM_POINTS)]
    facts = {"is_last": epoch == EPOCHS, "score": scores["overall"], "scores": scores}
    return {**place, **facts, "points": points, "wall_seconds": 10.0 * epoch, "peak_memory_bytes": 10**9}


def main() -> None:
    """Measures each number of lanes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lanes", type=int, nargs="+", default=[64, 512, 1000])
    parser.add_argument("--seconds", type=float, default=60.0, help="to measure, after 15 s in which lanes begin")
    options = parser.parse_args()
    columns = ("lanes", "channel %", "driver %", "median s", "p99 s", "longest s", "channel KB", "driver KB", "epochs")
    print("".join(f"{name:>12}" for name in columns), flush=True)
    for number in options.lanes:
        with tempfile.TemporaryDirectory(prefix="lanes-") as folder, connected_to_ray(None):
            print("".join(f"{value:>12}" for value in measure(number, options.seconds, folder)), flush=True)


def measure(num_lanes: int, seconds: float, folder: str) -> list[str]:
    """Runs so many lanes; the row of the table."""
    plan = make_plan(num_lanes, folder)
    node = ray.get_runtime_context().get_node_id()
    channel: Any = on_node(Channel, node, max_concurrency=MAX_CALLS).options(name=channel_name("lanes")).remote()
    table = open_table(plan)
    with Ownership(plan.options.folder, lambda: table.progress), dispatching(table, channel) as dispatcher:
        study = open_study(Path(folder, "journal.log"), "lanes", "overall")
        searcher = SweepSearcher(table, study, dispatcher.tell, max_live=num_lanes)
        driver = StandInForTune(searcher, dispatcher)
        processes = {"channel": process_of("ray::Channel"), "driver": psutil.Process()}
        for _ in range(200):  # a process that has just started allocates what does not depend on the lanes
            ray.get(channel.tell.remote(Message(kind="nodes", facts={"max_lanes": num_lanes, "alive": ["n"]})))
        before = {name: process.memory_info().rss for name, process in processes.items()}
        driver.suggest()
        names = [f"lane{number}" for number in range(num_lanes)]
        parts = [names[at : at + LANES_PER_ACTOR] for at in range(0, num_lanes, LANES_PER_ACTOR)]
        actor = on_node(SimulatedLanes, node, max_concurrency=4)
        running = [actor.remote(channel, part, seconds + 15).run.remote() for part in parts]
        driver.run(15.0)
        used = {name: cpu_seconds(process) for name, process in processes.items()}
        began = time.monotonic()
        driver.run(seconds)
        wall = time.monotonic() - began
        shares = [100 * (cpu_seconds(own) - used[name]) / wall / num_lanes for name, own in processes.items()]
        grown = [(own.memory_info().rss - before[name]) / 1024 / num_lanes for name, own in processes.items()]
        while ray.wait(running, num_returns=len(running), timeout=0)[1]:
            driver.run(1.0)
        waits = np.array([wait for found in ray.get(running) for wait in found])
    median, late = np.quantile(waits, [0.5, 0.99])
    return [
        *(str(num_lanes), *(f"{share:.3f}" for share in shares), f"{median:.3f}", f"{late:.3f}"),
        *(f"{waits.max():.3f}", *(f"{kilobytes:.0f}" for kilobytes in grown), str(len(waits))),
    ]


def make_plan(num_lanes: int, folder: str) -> SweepPlan:
    """A random search with more configurations than the lanes can train."""
    base = TrialConfig(stages=(StageConfig(tasks=TASKS, epochs=EPOCHS, steps_per_epoch=10),))
    ranges: dict[Any, Any] = {"optimizer.learning_rate": Float(low=1e-5, high=1e-3)}
    space = SearchSpace(name="lanes", question="?", base=base, grid={}, ranges=ranges)
    options = SweepOptions(
        space="lanes", name="lanes", storage=folder, search="random", trials=10 * num_lanes, reuse=False
    )
    Path(options.folder).mkdir()
    write_sweep(options.folder, {"name": "lanes"})
    return SweepPlan(options=options, space=space, data_folder=Path(folder))


@contextmanager
def dispatching(table: Any, channel: Any) -> Iterator[Dispatcher]:
    """The thread between channel and table, which is stopped at the end."""
    dispatcher = Dispatcher(table, channel)
    try:
        yield dispatcher
    finally:
        dispatcher.close(10.0)


class StandInForTune:
    """Suggests trials and gives verdicts as Tune's thread does, where nothing is pruned."""

    def __init__(self, searcher: SweepSearcher, dispatcher: Dispatcher) -> None:
        self._searcher, self._dispatcher = searcher, dispatcher
        self._num_suggested = 0
        self._ids: dict[str, str] = {}
        """Ids in Tune, by ours."""

    def suggest(self) -> None:
        """Takes all trials that the searcher has now."""
        while isinstance(found := self._searcher.suggest(str(self._num_suggested)), Mapping):
            self._ids[found["trial"]["trial_id"]] = str(self._num_suggested)
            self._num_suggested += 1

    def run(self, seconds: float) -> None:
        """Passes on what happens for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for event in self._dispatcher.take_events(0.2):
                if event.kind == "report":
                    scored = {"epoch": event.facts["epoch"], "best": event.record.best["overall"]}  # type: ignore[union-attr]
                    self._searcher.on_trial_result(self._ids[str(event.trial_id)], scored)
                    facts = {"epoch": event.facts["epoch"], "stop": False}
                    self._dispatcher.tell(Message(kind="verdict", trial_id=event.trial_id, facts=facts))
                elif event.kind == "ended":
                    scored = {"epoch": EPOCHS, "best": event.record.best["overall"]}  # type: ignore[union-attr]
                    self._searcher.on_trial_complete(self._ids[str(event.trial_id)], scored)
                    self.suggest()


def process_of(title: str) -> psutil.Process:
    """The process of this machine whose command has this title, the youngest."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [one for one in psutil.Process().children(recursive=True) if title in " ".join(one.cmdline())]
        if found:
            return max(found, key=lambda one: one.create_time())
        time.sleep(0.1)
    raise RuntimeError(f"there is no process {title}")


def cpu_seconds(process: psutil.Process) -> float:
    """Processor time of a process."""
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
