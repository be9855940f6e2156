"""The vocabulary of the demonstration corpus: synonyms, similar concepts, and adjectives by sentiment.

A line of a table is one concept. `|` separates synonyms, spaces separate the forms of a word. Where a table says so,
neighbours (the first and second line, the third and fourth, ...) are similar concepts.
"""

Word = tuple[str, ...]
"""A word in all its forms, e.g. ("help", "helps", "helped")."""
Concept = tuple[Word, ...]
"""Synonyms."""


def read_concepts(table: str) -> tuple[Concept, ...]:
    """Concepts from a table."""
    lines = [line for line in table.strip().splitlines() if line.strip()]
    return tuple(tuple(tuple(name.split()) for name in line.split("|")) for line in lines)


def split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PEOPLE = read_concepts(
    """
    teacher teachers | instructor instructors
    student students | pupil pupils
    doctor doctors | physician physicians
    nurse nurses
    lawyer lawyers | attorney attorneys
    judge judges
    boss bosses | manager managers
    worker workers | employee employees
    cook cooks | chef chefs
    waiter waiters
    child children | kid kids
    parent parents
    """
)
"""Subjects and objects of actions. Neighbours (teacher and student, doctor and nurse, ...) are similar."""

ACTIONS = read_concepts(
    """
    help helps helped | assist assists assisted
    hire hires hired | employ employs employed
    follow follows followed | chase chases chased
    watch watches watched | observe observes observed
    call calls called | phone phones phoned
    visit visits visited
    greet greets greeted | welcome welcomes welcomed
    thank thanks thanked
    praise praises praised
    trust trusts trusted
    """
)
"""Transitive verbs: base form, third person, participle. Neighbours are similar."""

PLACES = read_concepts(
    """
    park
    garden
    kitchen
    restaurant
    office | workplace
    school
    street | road
    station
    museum
    library
    """
)
"""Places of actions. Neighbours are similar."""

CITIES = read_concepts("Paris\nLondon\nRome\nBerlin\nMadrid\nVienna\nPrague\nOslo\nDublin")
"""Origins and destinations."""

TRAVELS = read_concepts("travel | go | get\ndrive\nfly\nwalk")
"""Verbs of travelling between cities."""

HABITS = read_concepts(
    """
    study | learn
    sleep | rest
    eat
    run | jog
    bake
    read
    work
    swim
    sing
    dance
    pray
    write
    """
)
"""Intransitive verbs."""

ANIMALS = read_concepts("dogs\ncats\nhorses\ncows\nwolves\nfoxes\nbears\ngoats\nlions\nmice")
"""What comparisons compare."""

COMPARISONS = read_concepts(
    """
    bigger smaller
    faster slower
    older younger
    stronger weaker
    louder quieter
    """
)
"""Comparatives and their opposites."""

QUESTION_WORDS = read_concepts("why\nhow\nwhen\nwhere")
OPENERS = ("", "", "", "", "Please , ", "Honestly , ")
"""Words before a question that do not change its meaning."""

ALL_CONCEPTS = (PEOPLE, ACTIONS, PLACES, CITIES, TRAVELS, HABITS, ANIMALS, COMPARISONS, QUESTION_WORDS)
"""Every table above."""

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
