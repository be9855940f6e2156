"""The word tables are well formed and unambiguous."""

from collections import Counter

from mtlib.demo import vocabulary as words


def test_every_word_has_one_meaning_and_the_forms_of_its_table() -> None:
    for table in words.ALL_CONCEPTS:
        assert len({len(name) for concept in table for name in concept}) == 1
    forms = Counter(form for table in words.ALL_CONCEPTS for concept in table for name in concept for form in name)
    assert [form for form, count in forms.items() if count > 1] == []
    adjectives = [word for group in words.STRENGTH.values() for word in group]
    assert len(set(adjectives)) == len(adjectives)


def test_neighbours_have_partners_and_strengths_opposites() -> None:
    assert [len(table) % 2 for table in (words.PEOPLE, words.ACTIONS, words.PLACES)] == [0, 0, 0]
    assert [len(words.STRENGTH[value]) for value in (1, 2)] == [len(words.STRENGTH[-value]) for value in (1, 2)]
