"""Search spaces; a built-in question is also found by the short name `search_spaces.NAME`.

Files of users, and the copies of them that sweeps keep, import questions by this name. The project's own code does not.
"""

__path__.append(f"{__path__[0]}/questions")
