"""The vocabulary of the demonstration corpus: synonyms, similar concepts, and adjectives by sentiment.

In a table, commas separate concepts, `|` synonyms, and spaces the forms of a word.
"""

Word = tuple[str, ...]
"""A word in all its forms, e.g. ("help", "helps", "helped")."""
Concept = tuple[Word, ...]
"""Synonyms."""


def read_concepts(table: str) -> tuple[Concept, ...]:
    """Concepts from a table."""
    return tuple(tuple(tuple(name.split()) for name in concept.split("|")) for concept in table.split(","))


def split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PEOPLE = read_concepts(
    """
    teacher teachers | instructor instructors, student students | pupil pupils,
    doctor doctors | physician physicians, nurse nurses,
    lawyer lawyers | attorney attorneys, judge judges,
    boss bosses | manager managers, worker workers | employee employees,
    cook cooks | chef chefs, waiter waiters,
    child children | kid kids, parent parents
    """
)
"""Subjects and objects of actions. The two concepts of a line are similar."""

ACTIONS = read_concepts(
    """
    help helps helped | assist assists assisted, hire hires hired | employ employs employed,
    follow follows followed | chase chases chased, watch watches watched | observe observes observed,
    call calls called | phone phones phoned, visit visits visited,
    greet greets greeted | welcome welcomes welcomed, thank thanks thanked,
    praise praises praised, trust trusts trusted
    """
)
"""Transitive verbs: base form, third person, participle. The two concepts of a line are similar."""

PLACES = read_concepts(
    "park, garden, kitchen, restaurant, office | workplace, school, street | road, station, museum, library"
)
"""Places of actions. Each pair (park and garden, kitchen and restaurant, ...) is similar."""

CITIES = read_concepts("Paris, London, Rome, Berlin, Madrid, Vienna, Prague, Oslo, Dublin")
"""Origins and destinations."""

TRAVELS = read_concepts("travel | go | get, drive, fly, walk")
"""Verbs of travelling between cities."""

HABITS = read_concepts("study | learn, sleep | rest, eat, run | jog, bake, read, work, swim, sing, dance, pray, write")
"""Intransitive verbs."""

ANIMALS = read_concepts("dogs, cats, horses, cows, wolves, foxes, bears, goats, lions, mice")
"""What comparisons compare."""

COMPARISONS = read_concepts("bigger smaller, faster slower, older younger, stronger weaker, louder quieter")
"""Comparatives and their opposites."""

QUESTION_WORDS = read_concepts("why, how, when, where")
OPENERS = ("", "", "", "", "Please , ", "Honestly , ")
"""Words before a question that do not change its meaning."""

ALL_CONCEPTS = (PEOPLE, ACTIONS, PLACES, CITIES, TRAVELS, HABITS, ANIMALS, COMPARISONS, QUESTION_WORDS)

ASPECTS = split_words("plot story script acting cast music dialogue ending pacing humor editing opening romance action")
"""Aspects of a film."""

STRENGTH = {
    2: split_words("wonderful brilliant superb stunning delightful gripping masterful"),
    1: split_words("good charming clever funny warm fresh lively solid"),
    -1: split_words("bad dull weak slow clumsy silly bland flat"),
    -2: split_words("awful terrible dreadful horrible unbearable hopeless dismal"),
}
"""Adjectives by sentiment, from -2 (very negative) to 2 (very positive)."""

STRENGTHENERS = ("very", "truly", "really", "remarkably")
"""Intensifiers: double the sentiment of a mild adjective."""
WEAKENERS = ("slightly", "somewhat", "mildly")
"""Downtoners: take one step off the sentiment of an adjective."""
NEGATORS = ("not", "never", "hardly")
"""Reverse the sign of the sentiment, and make it mild."""
REVERSER = "anything but"
"""Reverses the sign of the sentiment, and makes it strong."""
