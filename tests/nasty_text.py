"""A text that every place must show as it is, and how to find it in what is shown."""

NASTY = "[bold]Tone[/x] [red] :smile: \x1b[31m\x9b\x07\u202e % %s %(prog)s {} {0} $x_1$ <b>&amp;</b> *a* _b_ `c` | \\n"
"""Markup, emoji, sequences that steer a terminal, places of formats, mathematics, HTML, Markdown."""
SHOWN = NASTY.replace("\x1b", r"\x1b").replace("\x9b", r"\x9b").replace("\x07", r"\x07").replace("\u202e", r"\u202e")
"""What a user sees: all of it, and what would steer a terminal as Python writes it."""
NASTY_NAME = NASTY.replace("/", "-")
"""The same as the name of a file."""


def squeezed(text: str) -> str:
    """A text without white space, as places break lines."""
    return "".join(text.split())


def assert_shown(text: str, *endings: str) -> None:
    """Asserts that the text, followed by each ending, is in what was shown, and nothing that steers a terminal."""
    assert not [letter for letter in text if letter != "\n" and (ord(letter) < 32 or 127 <= ord(letter) < 160)]
    assert "\u202e" not in text
    for ending in endings or ("",):
        assert squeezed(SHOWN + ending) in squeezed(text), ending
