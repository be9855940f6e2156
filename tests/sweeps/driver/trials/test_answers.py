"""What lanes are answered: each trial goes to one of them, idle ones close, and a GPU may be one trial's alone."""

import pytest

import sweeps.driver.trials.answers
from sweeps.driver.trials.table import LaneRow
from tests.local_table import Asked, LocalTable
from tests.sweeps.driver.trials.test_changes import leave, run_out_of_memory


@pytest.fixture
def local() -> LocalTable:
    return LocalTable()


def test_each_trial_goes_to_one_waiting_lane(local: LocalTable) -> None:
    lanes = [local.want(name) for name in "ab"]
    assert not any(lane.is_answered for lane in lanes)
    for name in ("first", "second"):
        local.suggest(name)
    assert [(lane.answer.trial_id, lane.answer.attempt) for lane in lanes] == [("first", 1), ("second", 1)]
    started = [(event.lane, event.trial_id) for event in local.events("started")]
    assert started == [("a", "first"), ("b", "second")]


def test_call_of_dead_workers_takes_no_trial(local: LocalTable) -> None:
    local.open("a")
    dead = local.want("a")
    local.tell("workers_died", lane="a", why="a worker died")
    local.open("a")
    alive = local.want("a")
    local.suggest("t")
    assert (dead.answer, alive.answer.trial_id) == ("close", "t")


def test_newest_request_of_a_lane_alone_gets_a_trial(local: LocalTable) -> None:
    local.open("a")
    first, second = local.want("a"), local.want("a")
    local.suggest("t")
    assert (first.answer, second.answer.trial_id) == ("close", "t")


def test_idle_lanes_beyond_the_work_close_but_not_while_a_trial_waits(local: LocalTable) -> None:
    local.assign("t", "a")
    idle = local.want("b")
    local.tell("nodes", max_lanes=1, alive=["n"])
    assert idle.answer == "close"
    assert [event.lane for event in local.events("lane_closed")] == ["b"]
    local.suggest("u")
    assert local.want("b").answer.trial_id == "u"


def test_idle_lane_asks_again_in_time(local: LocalTable, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = local.want("a")
    assert not idle.is_answered
    monkeypatch.setattr(sweeps.driver.trials.answers, "IDLE_SECONDS", -1.0)
    local.tell("nodes", max_lanes=2, alive=["n"])
    assert idle.answer == "wait"


def test_progress_of_many_lanes_is_answered_later_but_a_stop_at_once(local: LocalTable) -> None:
    local.assign()
    assert local.ask("progress", "t", step=1).answer is False
    local.table.lanes |= {f"lane{number}": LaneRow(host="here") for number in range(1000)}
    held_back = local.ask("progress", "t", step=2)
    assert not held_back.is_answered
    local.table.rows["t"].seen -= 60
    local.tell("nodes", max_lanes=1001, alive=["n"])
    assert held_back.answer is False
    held_back = local.ask("progress", "t", step=3)
    local.tell("stop")
    assert held_back.answer is True


def open_on(local: LocalTable, lane: str, gpu: str) -> Asked:
    """Opens a lane on a GPU; its request for a trial."""
    local.open(lane, gpus=[("n", gpu)])
    return local.want(lane)


def test_trial_that_ran_out_of_memory_on_a_shared_gpu_gets_one_alone(local: LocalTable) -> None:
    """Lanes a and b share a GPU, c has another one."""
    local.tell("nodes", max_lanes=4, alive=["n"])
    for name in ("large", "t1", "t2", "t3", "t4"):
        local.suggest(name)
    large, _b, _c = (open_on(local, lane, gpu).answer for lane, gpu in (("a", "0"), ("b", "0"), ("c", "1")))
    assert (large.trial_id, large.has_gpu_alone) == ("large", False)
    run_out_of_memory(local, "large", "a", 1)
    again = open_on(local, "a", "0")
    assert not again.is_answered, "t1 is on its GPU"
    leave(local, "t2")
    alone = local.want("c").answer
    assert (alone.trial_id, alone.has_gpu_alone) == ("large", True)
    assert again.answer.trial_id == "t3", "a and b go on"
    assert not open_on(local, "d", "1").is_answered, "nothing joins it"


def test_other_gpus_go_on_while_a_trial_waits_for_the_freest_one_alone(local: LocalTable) -> None:
    """Lanes a and b share a GPU, c and d another one."""
    local.tell("nodes", max_lanes=4, alive=["n"])
    for name in ("large", "t1", "t2", "t3", "t4", "t5", "t6"):
        local.suggest(name)
    for lane, gpu in (("a", "0"), ("b", "0"), ("c", "1"), ("d", "1")):
        open_on(local, lane, gpu)
    run_out_of_memory(local, "large", "a", 1)
    waiting = open_on(local, "a", "0")
    leave(local, "t2")
    going_on = local.want("c")
    assert not waiting.is_answered, "t1 is on the freest GPU, where no trial begins meanwhile"
    assert going_on.answer.trial_id == "t4"
    leave(local, "t1")
    assert (waiting.answer.trial_id, waiting.answer.has_gpu_alone) == ("large", True)
    held_back = local.want("b")
    assert not held_back.is_answered
    leave(local, "large", 2)
    assert held_back.answer.trial_id == "t5"
