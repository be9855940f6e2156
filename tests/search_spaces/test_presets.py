"""The papers' settings, number by number."""

from search_spaces.presets import bert_and_beyond


def test_bert_and_beyond_has_the_optimizer_of_section_4_3() -> None:
    config = bert_and_beyond()
    optimizer = config.optimizer
    assert (optimizer.learning_rate, optimizer.weight_decay) == (2e-5, 0.01)
    assert (optimizer.beta1, optimizer.beta2, optimizer.schedule) == (0.9, 0.999, "constant")
    assert (config.encoder.name, config.encoder.dropout) == ("bert-base-uncased", 0.3)


def test_bert_and_beyond_staggers_two_epochs_of_qqp_before_thirteen_of_all_tasks() -> None:
    first, second = bert_and_beyond().stages
    assert (first.tasks, first.epochs) == (("qqp",), 2)
    assert (set(second.tasks), second.order, second.epochs) == ({"sst", "qqp", "sts"}, "sampled_round_robin", 13)
    assert not first.sum_losses
    assert not second.sum_losses


def test_bert_and_beyond_has_the_smart_settings_of_section_4_3() -> None:
    smart = bert_and_beyond().smart
    assert (smart.num_steps, smart.noise_std, smart.epsilon, smart.step_size) == (1, 1e-5, 1e-6, 1e-3)
    assert (smart.tasks, smart.mode, smart.reduction, smart.weight) == (("sst", "qqp"), "unit_norm", "sum", 0.0)


def test_bert_and_beyond_cross_encodes_pairs_in_batches_of_sixteen() -> None:
    tasks = bert_and_beyond().tasks
    assert {name: task.encoding for name, task in tasks.items()} == {"sst": "single", "qqp": "cross", "sts": "cross"}
    assert {task.batch_size for task in tasks.values()} == {16}
