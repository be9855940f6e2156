"""What a trial is loaded from: its cuts and its origin, with starting weights."""

from tests.sweeps.reuse.trained_trials import TrialStorage, train_trial


def test_loaded_trial_has_its_cuts(storage: TrialStorage) -> None:
    trial = storage.load_trial()
    assert [(cut.total_epochs, cut.total_steps, cut.is_end) for cut in trial.cuts] == [
        (1, 4, True),
        (2, 8, False),
        (3, 12, True),
    ]
    assert [trial.end_of(stage).total_epochs for stage in (0, 1)] == [1, 3]
    assert trial.can_be_extended
    assert not storage.load_trial(optimizer__schedule="slanted_triangular").can_be_extended


def test_starting_weights_are_part_of_a_trials_origin(storage: TrialStorage) -> None:
    trial, folder = storage.load_trial(), storage.trial_folder()
    train_trial(trial, folder)
    started = storage.load_trial(encoder__start_from=folder.own.base_path)
    assert trial.origin.started == {}
    assert started.origin.started
    assert not {cut.key for cut in trial.cuts} & {cut.key for cut in started.cuts}
