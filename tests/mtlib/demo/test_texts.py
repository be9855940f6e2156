"""The grammar of the demonstration corpus: labels depend on the meaning of a text, not on its words alone."""

import re
from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from mtlib.demo import texts as demo_text
from mtlib.demo import vocabulary as demo_words
from mtlib.demo.texts import (
    HEADLINE,
    LABEL_NOISE,
    QUESTIONS,
    SLOT_WEIGHTS,
    draw_meaning,
    extend_clause,
    known_words,
    realize_meaning,
    write_clause,
    write_headlines,
    write_predicate,
    write_questions,
    write_review,
)

Writer = Callable[[Random], tuple[tuple[str, ...], float]]
STRENGTH_OF = {word: value for value, group in demo_words.STRENGTH.items() for word in group}


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_text, "LABEL_NOISE", {"sst": 0.0, "qqp": 0.0})
    monkeypatch.setattr(demo_text, "SCORE_NOISE", 0.0)


def draw(writer: Writer, count: int) -> list[tuple[tuple[str, ...], float]]:
    random = Random(3)
    return [writer(random) for _ in range(count)]


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+|[^a-z\s]", text.lower())


@pytest.mark.parametrize("writer", [write_review, write_questions, write_headlines])
def test_the_same_stream_gives_the_same_texts(writer: Writer) -> None:
    assert draw(writer, 20) == draw(writer, 20)


@pytest.mark.parametrize(("writer", "classes"), [(write_review, range(5)), (write_questions, range(2))])
def test_classes_are_equally_frequent(writer: Writer, classes: range) -> None:
    counts = Counter(label for _, label in draw(writer, 5000))
    assert sorted(counts) == [float(label) for label in classes]
    assert min(counts.values()) > 0.85 * 5000 / len(classes)


def test_similarities_cover_the_range_in_steps_of_a_fifth() -> None:
    labels = np.array([label for _, label in draw(write_headlines, 3000)])
    assert (labels.min(), labels.max()) == (0, 5)
    assert np.allclose(labels * 5, np.round(labels * 5))
    assert np.histogram(labels, bins=5, range=(0, 5))[0].min() > 300


@pytest.mark.parametrize("writer", [write_review, write_questions, write_headlines])
def test_texts_are_short_and_of_known_words(writer: Writer) -> None:
    known = set(known_words())
    texts = [words_of(text) for pair, _ in draw(writer, 2000) for text in pair]
    assert {word for text in texts for word in text} <= known
    assert max(len(text) for text in texts) <= 19
    assert 5 <= np.mean([len(text) for text in texts]) <= 12


@pytest.mark.parametrize("value", range(-2, 3))
def test_a_sentiment_has_more_than_100_clauses(value: int) -> None:
    clauses = {write_clause(Random(number), value) for number in range(300)}
    assert len(clauses) > 100
    assert all(re.fullmatch(r"the \w+ (is|seems) \w+.*", clause) for clause in clauses)


@pytest.mark.parametrize("value", [-1, 1])
def test_negation_flips_the_sentiment(value: int) -> None:
    phrase = write_predicate(Random(0), "negated", value).split()
    assert phrase[0] in demo_words.NEGATORS
    assert STRENGTH_OF[phrase[-1]] * value < 0


@pytest.mark.parametrize("value", [-2, 2])
def test_degree_words_shift_the_strength_by_one(value: int) -> None:
    assert STRENGTH_OF[write_predicate(Random(0), "strengthened", value).split()[-1]] == value // 2
    assert STRENGTH_OF[write_predicate(Random(0), "weakened", value // 2).split()[-1]] == value
    assert STRENGTH_OF[write_predicate(Random(0), "reversed", value).split()[-1]] * value < 0


def test_a_conceded_clause_has_the_opposite_sentiment_and_does_not_count() -> None:
    assert extend_clause(Random(0), "but", "the plot is good", 1).endswith(", but the plot is good")
    assert extend_clause(Random(0), "although", "the plot is good", 1).startswith("the plot is good , although ")


def test_label_noise_shifts_by_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_text, "LABEL_NOISE", {**LABEL_NOISE, "sst": 1.0})
    off = {seed: write_review(Random(seed)) for seed in range(200)}
    monkeypatch.setattr(demo_text, "LABEL_NOISE", {**LABEL_NOISE, "sst": 0.0})
    true = {seed: write_review(Random(seed)) for seed in range(200)}
    assert all(off[seed][0] == true[seed][0] and abs(off[seed][1] - true[seed][1]) == 1 for seed in off)


@pytest.mark.usefixtures("without_noise")
def test_word_overlap_does_not_decide_whether_questions_are_duplicates() -> None:
    openers = ("please", "honestly", ",")
    same: dict[float, list[bool]] = {0.0: [], 1.0: []}
    for (first, second), label in draw(write_questions, 3000):
        bags = [sorted(word for word in words_of(text) if word not in openers) for text in (first, second)]
        same[label].append(bags[0] == bags[1])
    assert np.mean(same[0.0]) > 0.25
    assert np.mean(same[1.0]) < 0.75


@pytest.mark.parametrize("frame", QUESTIONS, ids=lambda frame: frame.wordings[0])
def test_swapping_the_names_changes_every_wording(frame: demo_text.Frame) -> None:
    meaning = draw_meaning(Random(1), frame)
    exchanged = {**meaning, "a": meaning["b"], "b": meaning["a"]}
    realized = {realize_meaning(Random(number), frame, meaning) for number in range(200)}
    assert realized.isdisjoint(realize_meaning(Random(number), frame, exchanged) for number in range(200))
    assert len(realized) >= len(frame.wordings)


@pytest.mark.usefixtures("without_noise")
def test_similarity_grows_with_overlap() -> None:
    rows = draw(write_headlines, 3000)
    function_words = {"in", "by"}
    overlaps = [len(set(words_of(a)) & set(words_of(b)) - function_words) for (a, b), _ in rows]
    labels = np.array([label for _, label in rows])
    means = [labels[np.array(overlaps) == shared].mean() for shared in (0, 2, 4)]
    assert means == sorted(means)
    assert sum(SLOT_WEIGHTS.values()) == 5
    assert SLOT_WEIGHTS.keys() == HEADLINE.slots.keys()
