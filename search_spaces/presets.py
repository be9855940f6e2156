"""The papers' settings as configurations, for search spaces to start from."""

from mtlib.config import TrialConfig, default_task_configs
from mtlib.config_network import EncoderConfig
from mtlib.config_penalties import SmartConfig
from mtlib.config_training import OptimizerConfig, StageConfig

ALL_TASKS = ("sst", "qqp", "sts")


def bert_and_beyond() -> TrialConfig:
    """Settings of BERT and Beyond: staggered fine-tuning, cross-encoded pairs, batches of 16, SMART on SST and QQP.

    SMART's weight is 0 here; table 6 searches it. The penalty is summed over the batch, as the implementation that the
    paper used does, so its weights are those of the table.

    Source: BERT and Beyond, sections 3.4 and 4.3, table 6 and appendix A.2. Its text says 10 epochs, the maxima of
    table 6 lie at up to 13 and those of table 5 at 15: here 15 in all, 2 on QQP alone and 13 on the three tasks.
    """
    return TrialConfig(
        encoder=EncoderConfig(name="bert-base-uncased", dropout=0.3),
        tasks=default_task_configs(),
        stages=staggered_fine_tuning(first_epochs=2, epochs=13),
        optimizer=OptimizerConfig(learning_rate=2e-5, weight_decay=0.01, beta1=0.9, beta2=0.999),
        smart=SmartConfig(
            weight=0.0,
            tasks=("sst", "qqp"),
            mode="unit_norm",
            noise_std=1e-5,
            step_size=1e-3,
            epsilon=1e-6,
            num_steps=1,
            reduction="sum",
        ),
    )


def staggered_fine_tuning(*, first_epochs: int, epochs: int) -> tuple[StageConfig, ...]:
    """QQP alone, the largest task, then all three by sampled round robin (BERT and Beyond, section 3.4)."""
    return (
        StageConfig(tasks=("qqp",), order="batch_round_robin", epochs=first_epochs),
        StageConfig(tasks=ALL_TASKS, order="sampled_round_robin", epochs=epochs),
    )
