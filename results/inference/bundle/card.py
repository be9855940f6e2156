"""The card of a bundle, in Markdown."""

from collections.abc import Iterator, Sequence

from huggingface_hub import ModelCardData

from mtlib.checkpoints.model_card import TAGS, front_matter, markdown, markdown_code
from mtlib.runtime.command_line import counted, in_words
from results.inference.bundle.manifest import MODELS_FOLDER, NEEDS_FILE, PACKAGE, Bundle
from results.records.selection import SELECTION_FILE, Selection
from results.selection.report import optimism_sentences, verdict


def bundle_card(selection: Selection, bundle: Bundle, base_models: Sequence[str], has_methods: bool = False) -> str:
    """Returns a whole card, in Markdown.

    Args:
        selection: of the bundle's tasks.
        bundle: what was written.
        base_models: names on the Hugging Face hub of the encoders that were trained, as far as they have one.
        has_methods: whether its models need methods of their maker's own.
    """
    parts = (
        head_lines(selection, bundle, base_models),
        running_lines(bundle, has_methods),
        expectation_lines(selection),
        member_table(bundle),
        limitation_lines(bundle),
    )
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def head_lines(selection: Selection, bundle: Bundle, base_models: Sequence[str]) -> Iterator[str]:
    """Yields what the Hugging Face hub reads, the headline and one sentence."""
    yield from front_matter(ModelCardData(base_model=list(base_models) or None, tags=[*TAGS, *bundle.tasks]))
    tasks = in_words(markdown(bundle.definitions[name].title) for name in bundle.tasks)
    yield from ("", f"# Models for {tasks}", "")
    yield f"Predicts {tasks} for new text with {counted(len(bundle.models), 'trained model')}. The sweep of the"
    yield f"selection, made on {selection.created[:10]}, its pretrained encoder and a network are not needed for that."


def running_lines(bundle: Bundle, has_methods: bool) -> Iterator[str]:
    """Yields how to install what it needs, and how to predict."""
    tasks = [bundle.definitions[name] for name in bundle.tasks]
    yield from ("## How to run it", "", "With Python 3.11 or later, in this folder:", "", "```")
    yield f"pip install -r {NEEDS_FILE}"
    flag = " --trust-methods" if has_methods else ""
    yield from (f"{PACKAGE} predict . --task {task.name} --input FILE --output predictions.csv{flag}" for task in tasks)
    yield from (f"{PACKAGE} predict --help      # pipes, JSON lines, other columns", "```", "")
    if has_methods:
        yield f"{flag.strip()} runs Python of its maker, which {MODELS_FOLDER}/*/trial.json hold: read it before."
    yield f"For the CPU alone, install torch first: `pip install torch=={bundle.packages.get('torch', '')} --index-url"
    yield "https://download.pytorch.org/whl/cpu`."
    yield from ("", "| task | columns of the input | what is predicted |", "| --- | --- | --- |")
    for task in tasks:
        low, high = task.label_range
        what = "a number" if task.is_regression else "a class"
        which = "any of" if task.kind_entry.has_several_labels else "one of"
        kind = f"{which} {', '.join(map(markdown, task.labels))}" if task.labels else f"{what}, {low:g} to {high:g}"
        columns = ", ".join(map(markdown_code, task.text_columns))
        yield f"| `{task.name}` ({markdown(task.title)}) | {columns} | {kind} |"


def expectation_lines(selection: Selection) -> Iterator[str]:
    """Yields what was chosen, its expected score, and how that was estimated."""
    yield from ("## What to expect", "")
    yield from ("| task | metric | expect | 95 % interval | estimated on | dev score |", "| --- " * 6 + "|")
    for name, chosen in selection.tasks.items():
        task, score = selection.definitions[name], chosen.score
        expected = f"{task.value_of(score.cross_fitted):.3f} | {task.bounds_text(score.interval)}"
        cells = f"{expected} | {counted(chosen.num_examples, 'dev example')} | {task.value_of(score.in_sample):.3f}"
        yield f"| {markdown(task.title)} | {markdown(task.metric)} | {cells} |"
    yield ""
    for name, chosen in selection.tasks.items():
        among = f"{counted(chosen.num_candidates, 'candidate')} of {counted(chosen.num_trials, 'trial')}"
        yield f"- {markdown(' '.join(verdict(selection.definitions[name], chosen)))} Chosen from {among}."
    yield ""
    yield f"The score to expect is cross-fitted: dev was cut into {selection.num_folds} folds, and each example was"
    yield "scored only by what had been chosen without its fold, so that choosing does not flatter it. The interval is"
    yield "over examples of the same kind; on other kinds of text expect less."
    yield from (*optimism_sentences(selection), "")
    seen = ("Scored on train rows that no trial has seen. Only the first evaluation is unbiased:", "")
    yield from seen if selection.evaluations else ("It was not scored on held-out rows.",)
    for number, found in enumerate(selection.evaluations, 1):
        for name in (name for name in selection.tasks if name in found.scores):
            task = selection.definitions[name]
            value = f"{task.value_of(found.scores[name]):.3f} ({task.bounds_text(found.intervals[name])})"
            rows = counted(found.num_examples[name], "row")
            yield f"- evaluation {number}, {found.time[:10]}, {markdown(task.title)}: {value}, {rows}"


def member_table(bundle: Bundle) -> Iterator[str]:
    """Yields the members of every ensemble."""
    yield from ("## Models", "", "| task | weight | model | trained as |", "| --- " * 4 + "|")
    for task, members in bundle.tasks.items():
        for member in members:
            origin = markdown(bundle.models[member.model])
            cells = f"{member.weight:.3f} | [`{member.model}`]({member.model}) | {origin}"
            yield f"| {markdown(bundle.definitions[task].title)} | {cells} |"
    yield ""
    yield "Each model's folder has a card of its own, which says how it was trained. Outputs of a task's models are"
    yield f"averaged with these weights. `{SELECTION_FILE}` has every selection method that was tried, with its scores."


def limitation_lines(bundle: Bundle) -> Iterator[str]:
    """Yields what the bundle does not promise, the versions that it was made with, and the licences."""
    yield from ("## Limitations", "")
    yield "- Nothing was scored on test. A dev score is no estimate for other text; the column `expect` is."
    yield "- It is for text of the kind that it was trained on, in that language, and cut at the models' longest input."
    if not all(bundle.definitions[task].is_regression for task in bundle.tasks):
        yield "- Probabilities are averages over models; their calibration was not measured."
    versions = ", ".join(f"{name} {version}" for name, version in {"Python": bundle.python, **bundle.packages}.items())
    yield f"- Made on {bundle.created[:10]} with {versions}. Other versions, and other devices, may round otherwise."
    yield "- The weights have no licence of their own; those of the pretrained encoder and the data apply."
