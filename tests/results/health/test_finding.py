"""A finding is one line below a table."""

from results.health.finding import Finding


def test_line_has_what_is_shown_and_what_to_do() -> None:
    assert Finding(level="note", what="The penalty is 0", advice="raise it").line == "The penalty is 0: raise it"
