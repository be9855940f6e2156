"""The words of the demonstration corpus: what means the same, what is alike, how strongly a word praises.

A line of a table is one concept. `|` parts its names, which mean the same; a name's spaces part its forms.
"""

Word = tuple[str, ...]
"""One name of a concept in all its forms, e.g. ("help", "helps", "helped"); a city has one."""
Concept = tuple[Word, ...]
"""Names that mean the same."""


def read_concepts(table: str) -> tuple[Concept, ...]:
    """Concepts from a table: a line each, names parted by `|`, forms by spaces."""
    lines = [line for line in table.strip().splitlines() if line.strip()]
    return tuple(tuple(tuple(name.split()) for name in line.split("|")) for line in lines)


def read_words(text: str) -> tuple[str, ...]:
    """Words parted by spaces."""
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
"""Who acts and who is acted upon. Neighbours (teacher and student, doctor and nurse, ...) are alike."""

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
"""What one person does to another: base form, third person, participle. Neighbours are alike."""

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
"""Where it happens. Neighbours are alike."""

CITIES = read_concepts("Paris\nLondon\nRome\nBerlin\nMadrid\nVienna\nPrague\nOslo\nDublin")
"""Ends of a journey."""

TRAVELS = read_concepts("travel | go | get\ndrive\nfly\nwalk")
"""Ways to go from one city to another."""

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
"""What one does alone."""

ANIMALS = read_concepts("dogs\ncats\nhorses\ncows\nwolves\nfoxes\nbears\ngoats\nlions\nmice")
"""Things that are compared."""

COMPARISONS = read_concepts(
    """
    bigger smaller
    faster slower
    older younger
    stronger weaker
    louder quieter
    """
)
"""More of something, and less of it."""

QUESTION_WORDS = read_concepts("why\nhow\nwhen\nwhere")
OPENERS = ("", "", "", "", "Please , ", "Honestly , ")
"""Words before a question that change nothing."""

ALL_CONCEPTS = (PEOPLE, ACTIONS, PLACES, CITIES, TRAVELS, HABITS, ANIMALS, COMPARISONS, QUESTION_WORDS)
"""Every table above."""

ASPECTS = read_words("plot story script acting cast music dialogue ending pacing humor editing opening romance action")
"""What a review speaks about."""

STRENGTH = {
    2: read_words("wonderful brilliant superb stunning delightful gripping masterful"),
    1: read_words("good charming clever funny warm fresh lively solid"),
    -1: read_words("bad dull weak slow clumsy silly bland flat"),
    -2: read_words("awful terrible dreadful horrible unbearable hopeless dismal"),
}
"""Adjectives by what they say of a film, from -2 (hates it) to 2 (loves it)."""

STRENGTHENERS = ("very", "truly", "really", "remarkably")
"""Make a mild adjective a strong one."""
WEAKENERS = ("slightly", "somewhat", "mildly")
"""Take one step of strength off an adjective."""
NEGATORS = ("not", "never", "hardly")
"""Turn praise into mild blame, and blame into mild praise."""
REVERSER = "anything but"
"""Turns praise into strong blame, and blame into strong praise."""
