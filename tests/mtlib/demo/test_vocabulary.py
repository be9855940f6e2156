"""The word tables are well formed and unambiguous."""

from collections import Counter

import pytest

from mtlib.demo import vocabulary as words
from mtlib.demo.vocabulary import Concept, read_concepts


def test_a_table_is_read_by_concept_name_and_form() -> None:
    concepts = read_concepts("help helps | assist assists,\n thank thanks")
    assert concepts == ((("help", "helps"), ("assist", "assists")), (("thank", "thanks"),))


@pytest.mark.parametrize("table", words.ALL_CONCEPTS, ids=lambda table: table[0][0][0])
def test_all_names_of_a_table_have_the_same_number_of_forms(table: tuple[Concept, ...]) -> None:
    assert len({len(name) for concept in table for name in concept}) == 1


@pytest.mark.parametrize("table", words.ALL_CONCEPTS, ids=lambda table: table[0][0][0])
def test_no_word_of_a_table_has_two_meanings(table: tuple[Concept, ...]) -> None:
    counts = Counter(form for concept in table for name in concept for form in name)
    assert [form for form, count in counts.items() if count > 1] == []


def test_tables_of_similar_neighbours_have_an_even_size() -> None:
    assert [len(table) % 2 for table in (words.PEOPLE, words.ACTIONS, words.PLACES)] == [0, 0, 0]


def test_every_adjective_has_one_strength_and_strengths_are_symmetric() -> None:
    adjectives = [word for group in words.STRENGTH.values() for word in group]
    assert len(set(adjectives)) == len(adjectives)
    assert [len(words.STRENGTH[value]) for value in (1, 2)] == [len(words.STRENGTH[-value]) for value in (1, 2)]


def test_no_word_is_in_two_tables() -> None:
    counts = Counter(form for table in words.ALL_CONCEPTS for form in {f for c in table for name in c for f in name})
    assert [form for form, count in counts.items() if count > 1] == []
