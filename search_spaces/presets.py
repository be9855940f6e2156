"""Base configurations of search spaces: the papers' settings, and `general`, with which to start on any tasks.

The papers name no precision. Here it is `auto`: dev scores in bf16 are those in fp32, with SMART and without
(docs/measurements/real_text.md).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mtlib.config.data import DataConfig
from mtlib.config.network import EncoderConfig, PalsConfig
from mtlib.config.penalties import ProximalConfig, SimcseConfig, SmartConfig
from mtlib.config.training import OptimizerConfig, StageConfig
from mtlib.config.trial import TrialConfig, default_task_configs
from mtlib.tasks import Task, in_order

ALL_TASKS = ("sst", "qqp", "sts")
PAIR_TASKS = ("qqp", "sts")

BEST_LAYERS = ((8, 9, 10, 11), (2, 3, 7, 8), (4, 5, 6, 7))
"""The four layers that do best for SST, QQP and STS when trained alone (Triple Threat, table 5); no ties at the fourth:
.490 against .471, .792 against .784, .825 against .823."""


def bert_and_beyond() -> TrialConfig:
    """Settings of BERT and Beyond: staggered fine-tuning, cross-encoded pairs, batches of 16, SMART on SST and QQP.

    SMART's weight is 0 here; table 6 searches it. The penalty is summed over the batch, as the implementation that the
    paper used does, so its weights are those of the table.

    Source: BERT and Beyond, sections 3.4 and 4.3, table 6 and appendix A.2. Its text says 10 epochs, the maxima of
    table 6 lie at up to 13 and those of table 5 at 15: here 15 in all, 2 on QQP alone and 13 on the three tasks.
    """
    return TrialConfig(
        encoder=EncoderConfig(name="bert-base-uncased", dropout=0.3),
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
        precision="auto",
    )


def staggered_fine_tuning(*, first_epochs: int, epochs: int) -> tuple[StageConfig, ...]:
    """QQP alone, the largest task, then all three by sampled round robin (BERT and Beyond, section 3.4)."""
    return (
        StageConfig(tasks=("qqp",), order="batch_round_robin", epochs=first_epochs),
        StageConfig(tasks=ALL_TASKS, order="sampled_round_robin", epochs=epochs),
    )


def triple_threat() -> TrialConfig:
    """Settings of Triple Threat: rounds of one batch per task summed into one step, weighted, pairs as one text.

    The weights are .1, 1, .2 for SST, QQP, STS: the row .520, .836, .851 that tables 4, 10, 11 and 13 start from has
    them (5.3 prefers .1, 2, .4 but most later tables do not use it). Adam without decay is AdamW at 0. The paper's
    dropout of .3 is after the encoder; here, as in the other papers, it is in the encoder too. Which task ends an epoch
    is not said: here all rows of all tasks are seen.

    Source: Triple Threat, sections 3.1, 3.3 and 4.1 to 4.3, tables 2 and 9.
    """
    base = TrialConfig(
        encoder=EncoderConfig(name="bert-base-uncased", dropout=0.3),
        stages=(StageConfig(tasks=ALL_TASKS, order="batch_round_robin", sum_losses=True, epochs=10),),
        optimizer=OptimizerConfig(learning_rate=1e-5, weight_decay=0.0),
        precision="auto",
    )
    encodings = by_task("encoding", ("cross_no_separator", "cross_no_separator"), PAIR_TASKS)
    return base.override({**by_task("loss_weight", (0.1, 1.0, 0.2)), **encodings})


def tuning_up_bert() -> TrialConfig:
    """Settings of Tuning Up BERT: the task of each step drawn uniformly, cross-encoded pairs, two logits for QQP.

    SMART's weight is 0 here; tables 3 and 4 search it. Its mode is `unit_norm`, not the projection that section 4.4
    writes: on a ball of radius 1e-5 the penalty is about 2.6e-7, so weights 1 and 3 would train as 0 does, but in table
    3 a weight of 3 costs QQP 2.3 points. The 100,000 synthetic sentences (4.3) are not published: no augmentation here.

    Source: Tuning Up BERT, sections 4.1, 4.2, 4.5, 5.2 and 5.3.3.
    """
    base = TrialConfig(
        encoder=EncoderConfig(name="bert-base-uncased", dropout=0.3, max_length=512),
        stages=(StageConfig(tasks=ALL_TASKS, order="uniform", epochs=25, steps_per_epoch=1000),),
        optimizer=OptimizerConfig(learning_rate=1e-5, weight_decay=0.0, beta1=0.9, beta2=0.999),
        smart=SmartConfig(
            weight=0.0,
            tasks=ALL_TASKS,
            mode="unit_norm",
            noise_std=1e-5,
            step_size=1e-3,
            epsilon=1e-5,
            num_steps=1,
            reduction="mean",
        ),
        precision="auto",
    )
    return base.override({"tasks.qqp.loss": "cross_entropy"})


def tuning_up_bert_alone(task: str) -> tuple[StageConfig, ...]:
    """Returns one task alone: QQP for 25 epochs of 2500 steps,
    the others for 150 of 50 (Tuning Up BERT, section 5.2)."""
    epochs, steps = (25, 2500) if task == "qqp" else (150, 50)
    return (StageConfig(tasks=(task,), epochs=epochs, steps_per_epoch=steps),)


def my_pal_bert() -> TrialConfig:
    """Settings of My PAL BERT's best model (row 3 of table 3): PALs, annealed sampling and SimCSE on STS.

    SimCSE's weight is not said: 1 here; its temperature is that of Gao et al. 2021. Of a text the paper reads BERT's
    pooler output, here the state of [CLS].

    Source: My PAL BERT, sections 4.1, 4.2, 5.3 and 5.4.
    """
    return TrialConfig(
        encoder=EncoderConfig(name="bert-base-uncased", dropout=0.3, max_length=128),
        pals=PalsConfig(size=204, num_heads=12, tasks=ALL_TASKS, placement="attention", function="attention"),
        stages=(StageConfig(tasks=ALL_TASKS, order="annealed", annealing=0.8, epochs=3, steps_per_epoch=1800),),
        optimizer=OptimizerConfig(learning_rate=2e-5, weight_decay=0.01, beta1=0.9, beta2=0.999),
        simcse=SimcseConfig(weight=1.0, tasks=("sts",), temperature=0.05, projection="linear", dropout=0.1),
        precision="auto",
    )


def general(tasks: Mapping[str, Task]) -> TrialConfig:
    """Settings to start with, for any tasks; no paper's.

    Measured with MiniLM on SST, QQP and STS, 600 and 1,200 steps, of 16 rows where batches are not the question, one
    setting at a time in 240 steps of 32; the order in 5,000 steps (docs/measurements/training_settings.md):
    - a pair in one input and a comparison of its texts, each encoded alone, are better than the first alone: the two
      make different mistakes. The second is what encoders of sentences were pretrained for.
    - the mean over a text's tokens is better than the state of [CLS], and no dropout of hidden states is not shown to
      be worse than the encoder's own.
    - tasks take turns, but none is seen more than twice while another is seen less often: small ones are memorized in
      a third pass, and the largest still learns. A short training does not reach two passes. The length of an epoch
      follows from all tasks but the largest, so that one large task neither fills epochs nor decides it.
    - batches of 32 are better than as many of 16, and not shown to be worse than twice as many. In 5,000 steps those of
      32 see each task three times; whether 16 are better then is not decided (one training each).
    - heads are fitted to the frozen encoder first: random ones would send random gradients into it.
    - a high rate for the heads, and slightly lower ones for each layer further down. With fitted heads neither is shown
      to help (240 steps), and twice the rate is no better after 600 steps and worse after 1,200; with random heads it
      was better. Wider encoders usually need a lower rate.
    - the loss of a regression in standard deviations of its labels: on labels from 0 to 5 it starves the other tasks
      under Adam's shared moments (measured with a weight of .1 instead). With fitted heads it is not shown to matter
      (240 steps).
    - the encoding of pairs, pooling, fitted heads and the size of batches matter (240 steps: .010 to .025 overall);
      no other setting is shown to.
    - a search by TPE around these rates, layer decay, dropout, SST's loss and QQP's weight found nothing better.
    By convention (Devlin et al. 2019): a rate that rises for a tenth of the steps and then falls, no decay of biases
    and LayerNorm.

    Penalties and PALs are off. They name the tasks already, so that one key (`smart.weight`, `pals.size`) turns them
    on: SMART those with classes, as BERT and Beyond, if there are any.

    Args:
        tasks: the definitions of the tasks by name, at least one.
    """
    names = in_order(tasks)
    regressions = [name for name in names if tasks[name].is_regression]
    pairs = [name for name in names if tasks[name].is_pair]
    smooth = tuple(name for name in names if name not in regressions) or names
    base = TrialConfig(
        encoder=EncoderConfig(dropout=0.0, max_length=128),
        tasks=default_task_configs(tasks),
        data=DataConfig(tasks=tasks),
        pals=PalsConfig(tasks=names),
        stages=(StageConfig(tasks=names, order="unimax", epochs=5),),
        optimizer=OptimizerConfig(
            learning_rate=7e-5,
            head_learning_rate=1e-3,
            layer_decay=0.95,
            weight_decay=0.01,
            decay_biases_and_norms=False,
            schedule="slanted_triangular",
            warmup_fraction=0.1,
        ),
        smart=SmartConfig(tasks=smooth),
        proximal=ProximalConfig(tasks=names),
        simcse=SimcseConfig(tasks=names),
        precision="auto",
    )
    scales = by_task("target_scale", ["unit"] * len(regressions), regressions)
    encodings = by_task("encoding", ["cross_and_bi"] * len(pairs), pairs)
    pooling = by_task("pooling", ["mean"] * len(names), names)
    probes = by_task("probe_rows", [1024] * len(names), names)
    sizes = by_task("batch_size", [32] * len(names), names)
    return base.override({**pooling, **probes, **sizes, **encodings, **scales})


def by_task(field: str, values: Sequence[Any], tasks: Sequence[str] = ALL_TASKS) -> dict[str, Any]:
    """Overrides of one field of several tasks, a value for each; by default of SST, QQP, STS."""
    return {f"tasks.{task}.{field}": value for task, value in zip(tasks, values, strict=True)}


def joined_name(values: Sequence[Any]) -> str:
    """Values of several tasks as one name: `16-16-10`."""
    return "-".join(f"{value:g}" for value in values)
