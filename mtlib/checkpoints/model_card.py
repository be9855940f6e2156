"""The model card of an exported model: how it was trained, how well it does on dev, how to load it, its limitations."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from mtlib.checkpoints.published import public_name
from mtlib.config.data import HUB_PREFIX
from mtlib.config.schema import settings_of, to_dict
from mtlib.config.trial import TrialConfig
from mtlib.data.cut_rows import CutRows
from mtlib.data.files.hub_datasets import split_hub_path
from mtlib.runtime.command_line import in_words
from mtlib.runtime.console import visible
from mtlib.tasks import Task, title_of

TAGS = ("multi-task", "multitask-sweeps")
TRUSTED_LOAD = 'load_exported("FOLDER", trust_methods=True)'
TASK_TYPE = "text-classification"
"""The hub's type of task for evaluations; it counts regressions of texts, such as STS-B, among them."""

MARKUP = re.compile(r"[\\`*\[\]<>|$~&#]|(?<!\w)_|_(?!\w)|:(?=[\w+-]+:)")
"""What Markdown may read as more than a letter, within a line; an underscore in a word is one."""

LOADING = """\
## How to load it

The encoder alone, with `transformers`:

```python
from transformers import AutoModel, AutoTokenizer

encoder = AutoModel.from_pretrained("FOLDER")
tokenizer = AutoTokenizer.from_pretrained("FOLDER")
```

The whole model, with multitask-sweeps:

```python
from mtlib.checkpoints.export import load_exported

exported = load_exported("FOLDER")
exported.model, exported.config, exported.pretrained.tokenizer
```

On the Hugging Face hub, the repository's name serves `from_pretrained` as FOLDER, and
`huggingface_hub.snapshot_download` of that name returns a folder for `load_exported`.

`mtlib.training.evaluation.predict` runs it over a split. A further trial starts from these weights with
`--set encoder.start_from=FOLDER`, and `--set encoder.start_heads=true` for the heads as well."""


@dataclass(frozen=True, kw_only=True)
class CardFacts:
    """Facts for the card that are in neither configuration nor encoder."""

    title: str
    best: str
    """What the epoch is the best one for: `overall`, or a task."""
    epoch: int
    """The epoch whose weights are exported, 1-based over all stages."""
    steps: int
    """Optimizer steps done by its end."""
    scores: Mapping[str, Mapping[str, float]]
    """Dev metrics of that epoch by task, and `overall`."""
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """95 % intervals over dev examples of those metrics that have one, likewise, the lower value first."""
    num_replicates: int = 1
    """How often the configuration was trained to its end."""
    replicate_means: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Mean and standard error of their highest dev scores, by task and `overall`, where there are several."""
    num_trials: int = 1
    """How many trials this one may have been picked from."""
    data_fingerprint: str
    """SHA-256 of the data."""
    num_rows: Mapping[str, int]
    """Usable rows by the data's part, e.g. `<task>-train`."""
    versions: Mapping[str, str]
    """Package versions by name, and what identifies the sources that trained it."""
    cut_rows: Sequence[CutRows] = ()
    """The train rows that trials of the sweep cut."""


def card_text(config: TrialConfig, fingerprint: str, files: Mapping[str, str], facts: CardFacts) -> str:
    """Returns a whole model card; `fingerprint` is the pretrained encoder's, `files` what the folder holds,
    by file name."""
    parts = (
        front_matter(card_metadata(config, facts)),
        opening_lines(config, files, facts),
        score_lines(config, facts),
        LOADING.splitlines(),
        exclusion_lines(config, facts),
        training_lines(config, fingerprint, facts),
    )
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def front_matter(metadata: ModelCardData) -> tuple[str, ...]:
    """Returns the lines that the Hugging Face hub reads at the beginning of a card."""
    return "---", metadata.to_yaml(), "---"


def card_metadata(config: TrialConfig, facts: CardFacts) -> ModelCardData:
    """Returns what the Hugging Face hub reads of a card, with the dev scores."""
    results = list(evaluations(config, facts))
    return ModelCardData(
        library_name="transformers",
        pipeline_tag="feature-extraction",
        base_model=config.encoder.name if is_hub_name(config.encoder.name) else None,
        tags=[*TAGS, *config.active_tasks],
        model_name=visible(facts.title) if results else None,
        eval_results=results or None,
    )


def evaluations(config: TrialConfig, facts: CardFacts) -> Iterator[EvalResult]:
    """Yields the dev score of each task by its own metric, whose name has the interval: the value stays a number."""
    for task in map(config.task, config.active_tasks):
        value = facts.scores.get(task.name, {}).get(task.metric)
        if value is not None:
            interval = metric_interval(facts, task.name, task.metric)
            yield EvalResult(
                task_type=TASK_TYPE,
                task_name=visible(task.title),
                metric_type=task.metric,
                metric_name=visible(task.metric_entry.title) + (f" (95 % interval {interval})" if interval else ""),
                metric_value=value,
                **dev_data(task),
            )


def dev_data(task: Task) -> dict[str, Any]:
    """Returns the data set and split of a task's dev rows, as arguments of `EvalResult`:
    the task, unless the hub has them."""
    paths = () if task.files is None or task.files.takes_dev_from_train else task.files.paths("dev")
    if paths and paths[0].startswith(HUB_PREFIX):
        path, split = split_hub_path(paths[0], "dev")
        name, _, configuration = path.removeprefix(HUB_PREFIX).partition("#")
        if is_hub_name(name):  # else a folder of this machine
            own = {"dataset_type": name, "dataset_config": configuration or None, "dataset_split": split}
            return {"dataset_name": visible(task.title), **own}
    return {"dataset_name": visible(task.title), "dataset_type": task.name, "dataset_split": "dev"}


def metric_interval(facts: CardFacts, task: str, metric: str) -> str:
    """Returns the interval of a metric, or nothing where there is none."""
    interval = facts.intervals.get(task, {}).get(metric)
    return "" if interval is None else " to ".join(f"{bound:.4f}" for bound in interval)


def is_hub_name(encoder: str) -> bool:
    """Returns whether an encoder is named as on the Hugging Face hub, not by a folder."""
    return not Path(encoder).expanduser().exists() and encoder.count("/") <= 1 and encoder[0] not in "./~"


def opening_lines(config: TrialConfig, files: Mapping[str, str], facts: CardFacts) -> Iterator[str]:
    yield from (f"# {markdown(facts.title)}", "")
    together = " together" if len(config.active_tasks) > 1 else ""
    tasks = in_words(titles_of(config.active_tasks, config))
    yield f"One text encoder, fine-tuned on {tasks}{together} by multitask-sweeps."
    yield from ("", "| file | what it holds |", "| --- | --- |")
    yield from (f"| `{name}` | {what} |" for name, what in files.items())


def score_lines(config: TrialConfig, facts: CardFacts) -> Iterator[str]:
    yield from ("## Scores on dev", "", "| task | metric | dev | 95 % interval |", "| --- " * 4 + "|")
    for task, metrics in facts.scores.items():
        title = markdown(title_of(task, config.data.tasks))
        for metric, value in metrics.items():
            yield f"| {title} | {metric} | {value:.4f} | {metric_interval(facts, task, metric)} |"
    among = f", of a trial among {facts.num_trials}" if facts.num_trials > 1 else ""
    yield ""
    yield f"**Picked on dev.** These are the weights of epoch {facts.epoch}{among}, kept because that epoch scored best"
    best = markdown(title_of(facts.best, config.data.tasks))
    yield f"({best}) on the very rows of this table: expect worse scores on other text. Nothing was scored on test."
    if facts.intervals:
        yield "Intervals are over dev examples of the same kind; they do not correct for picking on dev."
    if facts.replicate_means:
        yield ""
        yield f"The configuration was trained {facts.num_replicates} times. The mean of the best dev scores of these"
        yield "trainings, with its standard error:"
        for task, (mean, error) in facts.replicate_means.items():
            title = markdown(title_of(task, config.data.tasks))
            yield f"- {title}: {mean:.4f} ± {error:.4f}"


def exclusion_lines(config: TrialConfig, facts: CardFacts) -> Iterator[str]:
    """Yields what the model does not include, what its training did not read, and its licence."""
    yield from ("## Limitations", "")
    yield "- It has no trained pooler: where `transformers` adds one to the encoder (`pooler_output`), it is random."
    yield "  Pool the hidden states as in the table of tasks below."
    with_pals = tuple(task for task in config.active_tasks if config.pals.size > 0 and task in config.pals.tasks)
    if with_pals:
        tasks = in_words(titles_of(with_pals, config))
        yield f"- The encoder alone is not the whole model for {tasks}: their projected"
        yield "  attention layers change its hidden states and are stored in `tasks.safetensors`."
    if config.simcse.weight > 0:
        yield "- SimCSE's projection served training only: no score used it, no use of the model needs it."
    for rows in facts.cut_rows:
        if rows.is_of(config):
            yield f"- {rows.sentence(markdown(config.task(rows.task).title))}."
    yield "- It has no licence of its own yet; those of the pretrained encoder and of the data apply."


def training_lines(config: TrialConfig, fingerprint: str, facts: CardFacts) -> Iterator[str]:
    """Encoder, data, tasks, stages, rates, terms, seed and versions."""
    encoder = public_name(config.encoder.name)
    yield from ("## How it was trained", "")
    yield "Names and values are those of the configuration, `none` is not set; `mtlib/config/` documents each."
    yield ""
    settings = described(config.encoder, ("name", "start_from"))
    yield f"- Encoder: {markdown_code(encoder)}, fingerprint `{fingerprint}`; {settings}"
    if config.encoder.start_from is not None:
        place = public_name(config.encoder.start_from)
        yield f"- Starting weights: not the pretrained ones but those of {markdown_code(place)}"
    rows = ", ".join(f"{name} {count}" for name, count in facts.num_rows.items())
    yield f"- Data: fingerprint `{facts.data_fingerprint}`; rows: {rows or 'not recorded'}"
    yield f"- Optimizer steps: {facts.steps}, of which the last ended epoch {facts.epoch}; precision {config.precision}"
    yield f"- AdamW: {described(config.optimizer)}"
    for name, group in config.penalties.items():
        yield f"- {titled(config.methods.penalties, name)}: {described(group) if group.weight > 0 else 'none'}"
    if config.adapter.method != "none":
        yield f"- adapter: {described(config.adapter)}"
    yield f"- pals: {described(config.pals) if config.pals.size > 0 else 'none'}"
    gradients = titled(config.methods.gradient_methods, config.gradients, config)
    weighting = ", ".join((config.loss_weighting, *settings_in_words(config.weighting_entry.settings, config)))
    yield f"- Tasks' losses: weights {weighting}; gradients: {gradients}"
    if files := sorted({file.name for file in config.methods.origins.values()}):
        names = ", ".join(map(markdown_code, files))
        yield f"- Methods of own files, whose text the configuration has: {names}. They are Python, which loading runs:"
        yield f"  if the folder is not your own, only by `{TRUSTED_LOAD}`."
    if config.relational_tasks:
        yield f"- Relational layer shared by {in_words(titles_of(config.relational_tasks, config))}"
    yield f"- Batches: {described(config.data, ('tasks', 'sources'))}"
    yield f"- Seed {config.seed}, replicate {config.replicate}; configuration `{config.content_hash}`"
    yield f"- Versions: {', '.join(f'{name} {version}' for name, version in facts.versions.items()) or 'not recorded'}"
    yield from ("", *task_table(config), "", *stage_lines(config))


def task_table(config: TrialConfig) -> Iterator[str]:
    columns = ("encoding", "prefix", "pooling", "target_scale", "class_weights", "loss_weight", "batch_size")
    yield f"| task | kind | loss | head | {' | '.join(columns)} |"
    yield "| --- " * (len(columns) + 4) + "|"
    for task in config.active_tasks:
        settings = config.tasks[task]
        cells = " | ".join(shown(getattr(settings, column)) for column in columns)
        title, kind = markdown(config.task(task).title), config.task(task).kind
        loss, head = titled(settings.losses, settings.loss, settings), titled(settings.heads, settings.head, settings)
        yield f"| {title} | {kind} | {loss} | {head} | {cells} |"
    yield ""
    yield "Logits: one per class of a task of classes; of a binary task one, above 0 for label 1; of several labels"
    yield "(`multilabel`) one each, above 0 where a row has it; of a regression the value itself, not clipped to the"
    yield "range of the labels (from `from_unit` of the model, where `target_scale` is `unit`)."
    for name in config.active_tasks:
        labels = ", ".join(map(markdown_code, config.task(name).labels))
        if labels:
            yield f"Labels of {markdown(config.task(name).title)}, from 0 on: {labels}."


def stage_lines(config: TrialConfig) -> Iterator[str]:
    """Yields the plan, a line per stage, and what its extra data are."""
    yield from ("Stages, one after another:", "")
    for number, stage in enumerate(config.stages, start=1):
        yield f"{number}. {stage.order_entry.title}: {described(stage)}"
    sources = {name: config.data.sources[name] for stage in config.stages for name in stage.extra_data}
    joined = {name: item for name, item in config.data.sources.items() if item.role != "extra"}
    for name, source in {**sources, **joined}.items():
        if source.task in config.active_tasks:
            yield f"- data {markdown_code(name)}: {described(source, ('path',))}"


def titled(table: Mapping[str, Any], name: str, group: Any = None) -> str:
    """Returns a method of a table of `mtlib.config` by its title, with its name in the configuration.

    `group` is the group of the configuration that has the method's settings; None: they are not shown.
    """
    settings = () if group is None else settings_in_words(table[name].settings, group)
    return ", ".join((f"{table[name].title} (`{name}`)", *settings))


def settings_in_words(settings: type[Any] | None, group: Any) -> Iterator[str]:
    """Yields the settings of a method, with the values that a group of the configuration has for them."""
    yield from (f"{name} {shown(to_dict(value))}" for name, value in settings_of(settings, group).items())


def described(group: Any, leave_out: tuple[str, ...] = ()) -> str:
    """Returns every field of a group of the configuration with its value."""
    return ", ".join(f"{name} {shown(value)}" for name, value in to_dict(group).items() if name not in leave_out)


def shown(value: Any) -> str:
    """Returns a value as typed for `--set`."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return str(value).lower() if value is None or isinstance(value, bool) else markdown(str(value))


def markdown(text: str) -> str:
    """A text from outside in which Markdown, and the HTML and mathematics that may be in it, have no meaning."""
    return MARKUP.sub(r"\\\g<0>", visible(text))


def markdown_code(text: str) -> str:
    """Returns a text as code, or escaped where code could not hold it, as in a table."""
    return markdown(text) if set(text) & set("`|\\") else f"`{visible(text)}`"


def titles_of(names: Iterable[str], config: TrialConfig) -> list[str]:
    """Returns the titles of tasks."""
    return [markdown(title_of(name, config.data.tasks)) for name in names]
