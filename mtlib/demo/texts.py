"""Sentences of the demonstration corpus: reviews, pairs of questions, pairs of headlines, from a small grammar.

The meaning of a text is drawn first, its wording second and independently of the label, so that the words alone predict
little: a paraphrase may exchange active for passive, `before` for `after`, `bigger` for `smaller` or a word for its
synonym, and a question with another meaning may hold the same words in other places.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from mtlib.demo import vocabulary as words
from mtlib.demo.vocabulary import Concept, Word

LABEL_NOISE = {"sst": 0.15, "qqp": 0.05}
"""Share of the rows, in every split, with a wrong label: in reviews a neighbouring class."""
SCORE_NOISE = 0.4
"""Standard deviation of the noise on a similarity of 0..5."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A kind of sentence: the concepts that fill its slots, and its wordings."""

    slots: Mapping[str, tuple[Concept, ...]]
    """Concepts by slot. `a` and `b` are the two that can be swapped."""
    wordings: tuple[str, ...]
    """Wordings of one meaning; `{a[0]}` is the first form of the word in slot `a`."""


Meaning = dict[str, Concept]
"""A concept for each slot of a frame."""

QUESTIONS = (
    Frame(
        slots={"q": words.QUESTION_WORDS, "a": words.PEOPLE, "v": words.ACTIONS, "b": words.PEOPLE},
        wordings=("{q[0]} do {a[1]} {v[0]} {b[1]} ?", "{q[0]} are {b[1]} {v[2]} by {a[1]} ?"),
    ),
    Frame(
        slots={"v": words.TRAVELS, "q": words.QUESTION_WORDS[1:3], "a": words.CITIES, "b": words.CITIES},
        wordings=("{q[0]} can i {v[0]} from {a[0]} to {b[0]} ?", "{q[0]} can i {v[0]} to {b[0]} from {a[0]} ?"),
    ),
    Frame(
        slots={"a": words.HABITS, "b": words.HABITS},
        wordings=("should i {a[0]} before i {b[0]} ?", "should i {b[0]} after i {a[0]} ?"),
    ),
    Frame(
        slots={"a": words.ANIMALS, "b": words.ANIMALS, "m": words.COMPARISONS},
        wordings=("are {a[0]} {m[0]} than {b[0]} ?", "are {b[0]} {m[1]} than {a[0]} ?"),
    ),
    Frame(
        slots={"p": words.PEOPLE, "a": words.HABITS, "b": words.HABITS},
        wordings=("why do {p[1]} {a[0]} but not {b[0]} ?", "why do {p[1]} not {b[0]} but {a[0]} ?"),
    ),
)

HEADLINE = Frame(
    slots={"a": words.PEOPLE, "v": words.ACTIONS, "b": words.PEOPLE, "p": words.PLACES},
    wordings=("{a[0]} {v[1]} {b[0]} in {p[0]}", "{b[0]} {v[2]} by {a[0]} in {p[0]}", "in {p[0]} {a[0]} {v[1]} {b[0]}"),
)
REVIEW_WORDS = "the is seems and but although neither nor . ,"
"""Words of reviews that are in no table."""
SLOT_WEIGHTS = {"a": 1.5, "v": 1.5, "b": 1.25, "p": 0.75}
"""Share of each slot of a headline in the similarity; they sum to 5."""


def write_review(random: Random) -> tuple[tuple[str, ...], float]:
    """Returns a film review and its sentiment, 0 (very negative) to 4 (very positive), each as likely as the others."""
    wanted = random.choice((-2, -1, 0, 1, 2))
    clause = write_clause(random, wanted)
    text = extend_clause(random, random.choice(REVIEWS), clause, wanted)
    if random.random() < LABEL_NOISE["sst"]:
        wanted = wanted + random.choice((-1, 1)) if abs(wanted) < 2 else wanted - wanted // 2
    return (f"{text} .",), float(wanted + 2)


REVIEWS = ("alone", "alone", "and", "but", "although")
"""Forms of a review; each entry is equally likely."""


def extend_clause(random: Random, form: str, clause: str, value: int) -> str:
    """Returns a review of sentiment `value` from its main clause: all of it, or the part after `but` or before
    `although`."""
    if form == "alone":
        return clause
    if form == "and":
        return f"{clause} and {write_clause(random, value)}"
    # of the opposite sign; any but neutral beside a neutral clause
    contrast = write_clause(random, random.choice([other for other in (-2, -1, 1, 2) if other * value <= 0]))
    return f"{contrast} , but {clause}" if form == "but" else f"{clause} , although {contrast}"


def write_clause(random: Random, value: int) -> str:
    """Returns a clause such as `the plot is not very good` whose sentiment is `value`, -2..2."""
    predicate = write_predicate(random, random.choice(PREDICATES[abs(value)]), value)
    return f"the {random.choice(words.ASPECTS)} {random.choice(('is', 'seems'))} {predicate}"


PREDICATES = {
    0: ("weakened", "neither"),
    1: ("plain", "negated", "negated", "weakened"),
    2: ("plain", "strengthened", "reversed"),
}
"""Forms of a predicate by the absolute value of its sentiment; each entry is equally likely."""


def write_predicate(random: Random, form: str, value: int) -> str:
    """Returns a predicate such as `not very good` whose sentiment is `value`."""
    if form == "strengthened":
        return f"{random.choice(words.STRENGTHENERS)} {adjective(random, value // 2)}"
    if form == "weakened":
        return f"{random.choice(words.WEAKENERS)} {adjective(random, value * 2 or random.choice((-1, 1)))}"
    if form == "negated":
        opposite = adjective(random, -value * random.choice((1, 2)))
        between = random.choice(("", f"{random.choice(words.STRENGTHENERS)} "))
        return f"{random.choice(words.NEGATORS)} {between}{opposite}"
    if form == "reversed":
        return f"{words.REVERSER} {adjective(random, -value // 2 * random.choice((1, 2)))}"
    if form == "neither":
        first, second = (adjective(random, sign * random.choice((1, 2))) for sign in random.sample((-1, 1), 2))
        return f"neither {first} nor {second}"
    return adjective(random, value)


def adjective(random: Random, value: int) -> str:
    return random.choice(words.STRENGTH[value])


def write_questions(random: Random) -> tuple[tuple[str, ...], float]:
    """Returns two questions and whether they are duplicates, 0 or 1, each as likely as the other."""
    frame = random.choice(QUESTIONS)
    meaning = draw_meaning(random, frame)
    is_duplicate = random.random() < 0.5
    other = meaning if is_duplicate else change_question(random, frame, meaning)
    texts = tuple(random.choice(words.OPENERS) + realize_meaning(random, frame, each) for each in (meaning, other))
    is_noisy = random.random() < LABEL_NOISE["qqp"]
    return tuple(map(capitalise, texts)), float(is_duplicate != is_noisy)


def change_question(random: Random, frame: Frame, meaning: Meaning) -> Meaning:
    """Another meaning: usually `a` and `b` are swapped, which keeps the words; otherwise one concept is replaced."""
    if random.random() < 0.75:
        return {**meaning, "a": meaning["b"], "b": meaning["a"]}
    return replace_slot(random, frame, meaning, random.choice(list(frame.slots)))


def write_headlines(random: Random) -> tuple[tuple[str, ...], float]:
    """Returns two headlines and their similarity, 0 to 5 in steps of .2, which grows with the slots that agree."""
    meaning = draw_meaning(random, HEADLINE)
    other, score = meaning, 5.0
    for slot in random.sample(list(SLOT_WEIGHTS), random.randrange(len(SLOT_WEIGHTS) + 1)):
        other, kept = change_headline(random, other, slot)
        score -= SLOT_WEIGHTS[slot] * (1 - kept)
    if random.random() < 0.35:
        other = {**other, "a": other["b"], "b": other["a"]}
        score *= 0.5
    noisy = min(5.0, max(0.0, random.gauss(score, SCORE_NOISE)))
    texts = tuple(capitalise(realize_meaning(random, HEADLINE, each)) for each in (meaning, other))
    return texts, round(noisy * 5) / 5


def change_headline(random: Random, meaning: Meaning, slot: str) -> tuple[Meaning, float]:
    """Replaces a slot by a similar concept, which keeps half of its weight, or by any other."""
    concepts = HEADLINE.slots[slot]
    neighbour = concepts[concepts.index(meaning[slot]) ^ 1]
    if random.random() < 0.4 and neighbour not in meaning.values():
        return {**meaning, slot: neighbour}, 0.5
    return replace_slot(random, HEADLINE, meaning, slot), 0.0


def draw_meaning(random: Random, frame: Frame) -> Meaning:
    """Returns a different concept for each slot."""
    meaning: Meaning = {}
    for slot, concepts in frame.slots.items():
        meaning[slot] = random.choice([concept for concept in concepts if concept not in meaning.values()])
    return meaning


def replace_slot(random: Random, frame: Frame, meaning: Meaning, slot: str) -> Meaning:
    return {**meaning, slot: random.choice([c for c in frame.slots[slot] if c not in meaning.values()])}


def known_words() -> list[str]:
    """Returns every word and punctuation mark of the corpus, in lower case, sorted."""
    tables = [*(table for frame in (*QUESTIONS, HEADLINE) for table in frame.slots.values())]
    forms = [form for table in tables for concept in table for name in concept for form in name]
    wordings = [re.sub(r"{.*?}", "", wording) for frame in (*QUESTIONS, HEADLINE) for wording in frame.wordings]
    reviews = [*words.ASPECTS, *words.STRENGTHENERS, *words.WEAKENERS, *words.NEGATORS, words.REVERSER, REVIEW_WORDS]
    adjectives = [word for group in words.STRENGTH.values() for word in group]
    text = " ".join((*forms, *wordings, *words.OPENERS, *reviews, *adjectives)).lower()
    return sorted(set(re.findall(r"[a-z]+|[^a-z\s]", text)))


def realize_meaning(random: Random, frame: Frame, meaning: Meaning) -> str:
    """Returns a random wording of a meaning."""
    chosen: dict[str, Word] = {slot: random.choice(concept) for slot, concept in meaning.items()}
    return random.choice(frame.wordings).format(**chosen)


def capitalise(text: str) -> str:
    """Returns the text with a capital at its start, `I` in capitals, and no space before punctuation."""
    tidy = re.sub(r" (?=[?,])", "", text).replace(" i ", " I ")
    return tidy[0].upper() + tidy[1:]
