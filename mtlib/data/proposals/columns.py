"""Which columns of a file are the texts, the label, the ids and the split of each row, by their names and cells."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mtlib.config.data import as_number
from mtlib.data.files.readers import SPLIT_WORDS
from mtlib.data.proposals.samples import LABEL_NAMES, MOST_LABELS, Sample, name_words
from mtlib.data.row_labels import parse_list
from mtlib.data.row_sources import MOST_SPLITS

TEXT_WORDS, TEXT_CELLS = 3.0, 1000
"""Words that a cell of a column of texts has on average, at least, and how many cells are looked at."""
REPEATS = 5
"""How often each value of a column occurs on average, at least, that is a label, however many words it has."""
ID_NAMES = ("id", "idx", "index", "key", "guid", "uid", "qid")
"""Words of the names of columns of ids."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a task."""

    texts: tuple[str, ...]
    """One, or both of a pair; none: no column has texts."""
    label: str
    """Empty: no column looks like labels."""
    doubts: tuple[str, ...]


def choose_columns(sample: Sample) -> Columns:
    """Returns the likeliest columns of texts and label, and what is unsure about them."""
    labels, doubts = label_columns(sample), list[str]()
    label = labels[0] if labels else ""
    texts = [name for name in columns_of_texts(sample) if name != label]
    is_pair = len(texts) > 1 and (len(texts) == 2 or not sample.label)
    shown = texts[:2] if is_pair else texts[:1] or fallback_texts(sample, label)
    if len(texts) > len(shown):
        doubts.append(f"these columns look like texts: {', '.join(texts)}")
    elif is_pair:
        doubts.append(f"two columns look like texts, and are a pair here: {', '.join(texts)}")
    elif not texts and shown and len(sample.names) > 1:
        doubts.append(f"no column has texts of several words: {shown[0]} has the most different cells")
    if not labels:
        doubts.append("no column looks like labels")
    elif others := [name for name in labels[1:] if name not in shown]:
        doubts.append(f"these columns may be labels: {', '.join([label, *others])}")
    return Columns(texts=tuple(shown), label=label, doubts=tuple(doubts))


def columns_of_texts(sample: Sample) -> list[str]:
    """Returns the columns whose cells are texts."""
    return [name for name in sample.names if are_texts(sample.values(name))]


def are_texts(values: list[str]) -> bool:
    """Returns whether cells have several words and are not few different ones, each of which recurs, as of labels."""
    cells = [cell for cell in values[:TEXT_CELLS] if not cell.startswith(("[", "{"))]
    has_words = sum(len(cell.split()) for cell in cells) >= TEXT_WORDS * len(cells) > 0
    num_values = len(set(values))
    return has_words and (num_values > MOST_LABELS or num_values * REPEATS > len(values))


def fallback_texts(sample: Sample, label: str) -> list[str]:
    """Returns the column with the most different cells, of several the longest; neither ids nor numbers nor label."""
    others = [name for name in sample.names if name not in (label, *split_columns(sample))]
    cells = {name: sample.values(name) for name in others if not is_id(name)}
    sizes = {name: (len(set(own)), sum(map(len, own))) for name, own in cells.items() if not are_numbers(own)}
    return [max(sizes, key=sizes.__getitem__)] if sizes else []


def is_id(name: str) -> bool:
    """Returns whether a word of a column's name is a usual one of ids."""
    return not set(ID_NAMES).isdisjoint(name_words(name))


def id_columns(samples: Sequence[Sample]) -> list[str]:
    """Returns the columns of ids: in all rows of the files each cell of them is another one."""
    usual = [name for name in samples[0].names if name.lower() in ID_NAMES]
    cells = {name: {cell for one in samples for cell in one.values(name)} for name in usual}
    return [name for name, own in cells.items() if len(own) == sum(len(one.rows) for one in samples)]


def split_columns(sample: Sample) -> list[str]:
    """Returns the columns that say which split each row is for, as readers find them."""
    values = {name: set(sample.values(name)) for name in sample.names}
    few = {name: own for name, own in values.items() if len(own) <= MOST_SPLITS}
    return [name for name, own in few.items() if len(SPLIT_WORDS.intersection(map(str.casefold, own))) > 1]


def label_columns(sample: Sample) -> list[str]:
    """Returns the columns that may be labels, the likeliest first."""
    if sample.label or sample.texts:
        return [sample.label] if sample.label else []
    aside = [*columns_of_texts(sample), *split_columns(sample), *id_columns([sample])]
    ranks: dict[str, tuple[int, int]] = {}
    for name in (name for name in sample.names if name not in aside):
        values = sample.values(name)
        labels = {label for cell in set(values) for label in labels_in(cell)}
        if values and (1 < len(labels) <= MOST_LABELS or are_numbers(values)):
            ranks[name] = label_rank(name, values)
    return sorted(ranks, key=ranks.__getitem__)


def label_rank(name: str, values: list[str]) -> tuple[int, int]:
    """Returns how unlikely a column is that of the labels: usual names, then names with a usual word, then columns
    whose cells recur, then ids and columns of cells that are nearly all different."""
    if name.lower() in LABEL_NAMES:
        return 0, LABEL_NAMES.index(name.lower())
    named = [LABEL_NAMES.index(word) for word in name_words(name) if word in LABEL_NAMES]
    if named:
        return 1, min(named)
    return 2, int(is_id(name)) + int(2 * len(set(values)) > len(values))


def are_numbers(values: list[str]) -> bool:
    """Returns whether all cells are numbers; true without any."""
    return all(isinstance(as_number(cell), float) for cell in set(values))


def labels_in(cell: str) -> list[str]:
    """Returns the labels in a cell: of a list in JSON, or numbers with commas between; itself where it is neither."""
    parts = [part.strip() for part in cell.split(",")]
    if all(part.isascii() and part.isdigit() for part in parts):
        return parts
    own = parse_list(cell) if cell.startswith("[") else None
    return [cell] if own is None else own


def parts_that_recur(values: Counter[str]) -> list[str]:
    """Returns the parts between commas of cells if some cells have several and some part is in several cells: labels of
    which a row has any number."""
    found = [[part.strip(" []'\"") for part in cell.split(",")] for cell in values]
    counts = Counter(part for parts in found for part in set(parts))
    recur = any(counts[part] > 1 for parts in found if len(parts) > 1 for part in parts)
    return sorted(filter(None, counts)) if recur else []
