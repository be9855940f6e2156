"""The words of the demonstration corpus: what means the same, what is alike, how strongly a word praises.

A line of a table is one concept. `|` parts its names, which mean the same; a name's spaces part its forms.
"""

Word = tuple[str, ...]
"""One name of a concept in all its forms, e.g. ("help", "helps", "helped", "helping"); a noun has one form."""
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
    help helps helped helping | assist assists assisted assisting
    thank thanks thanked thanking
    follow follows followed following | chase chases chased chasing
    call calls called calling | phone phones phoned phoning
    watch watches watched watching | observe observes observed observing
    visit visits visited visiting
    greet greets greeted greeting | welcome welcomes welcomed welcoming
    praise praises praised praising
    hire hires hired hiring | employ employs employed employing
    trust trusts trusted trusting
    """
)
"""What one person does to another: base, third person, participle, progressive. Neighbours are alike."""

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
    hotel
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
    cook
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
