"""Lines of notes about people, then questions about them; some have no answer in the notes."""

from __future__ import annotations

from random import Random

from ..alternatives import expand, lines
from ..items import JOINT, Passage, a, upper_first
from .invented import CITIES, COLORS, HOBBIES, JOBS, PEOPLE, PETS

WORDS = {"city": CITIES, "job": JOBS, "hobby": HOBBIES, "pet": PETS, "color": COLORS}
SAYS = {
    "city": lines("""
        {n} [lives in|comes from|is from|has a home in|has a flat in|moved to|has lived for years in] {v}.
        [the home of {n} is|home for {n} is|{n} is at home in] {v}.
        in {v} lives {n}.
        """),
    "job": lines("""
        {n} [works as|is|has become|has a job as|is employed as|makes a living as] {a}.
        [the job of {n} is|the profession of {n} is] {v}.
        for a living, {n} works as {a}.
        """),
    "hobby": lines("""
        {n} [likes|loves|enjoys|is fond of|is a fan of] {v}.
        the [hobby|favorite hobby|great love] of {n} is {v}.
        {n} [spends the weekend|spends Sundays|relaxes] with {v}.
        """),
    "pet": lines("""
        {n} [has|owns|keeps|lives with|takes care of|has got] {a}.
        the pet of {n} is {a}.
        at home {a} waits for {n}.
        """),
    "color": lines("""
        {n}'s [favorite color|best-loved color] is {v}.
        the favorite color of {n} is {v}.
        {n} [likes the color {v} best|prefers the color {v}|thinks {v} is the best color].
        """),
}
TELL = {
    "tell": "do you know |can you tell me |please tell me |tell me |I want to know |I would like to know |say |"
            "I wonder |could you say |find out |I need to know |please say |any idea |let me know |I am asking ",
    "so": "||||||so |and |now, |according to the notes, |going by the notes, |tell me, |please, |OK, |hey, |one more: ",
    "end": "?|?|?|?|? Look it up.|? Check the notes.|, please?|? Answer briefly.|, according to the notes?|? Thanks.",
    "noun": "{x}?|what is {x}?|and {x}?|{x}, please.|tell me {x}.|give me {x}.|do you know {x}?|what about {x}?|"
            "I need {x}.|name {x}.|look up {x}.|{x} is what?|can you find {x}?|what do the notes give as {x}?",
}


def _asks(nouns: str, text: str) -> tuple[str, ...]:
    """Questions, one a line: those that name the thing, and those that are said here."""
    return lines(f"[<noun>]\n{text}".replace("<noun>", TELL["noun"].replace("{x}", f"[{nouns}]")), **TELL)


ASKS = {
    "city": _asks(
        "{n}'s home|the home of {n}|the home town of {n}|{n}'s city|the city of {n}|the city where {n} lives", """
        <so>[where does {n} live|where is {n} from|where is {n}'s home|where is {n} at home|\
            where does {n} come from]<end>
        <so>[in which city|in what city|in which place|in what town] [does {n} live|is {n} at home|can I meet {n}]<end>
        <so>[which|what] [city|place|town] [is {n}'s home|does {n} call home|does {n} live in|is {n} from]<end>
        <so>[where can I find {n}|where would a letter reach {n}|where does a postcard to {n} have to go]<end>
        <so>[where do I send {n} a parcel|where should I look for {n}|where has {n} settled|where does {n} stay]<end>
        <tell>[where {n} lives|which city {n} lives in|where {n} is from|where {n}'s home is|where I can find {n}].
        """),
    "job": _asks(
        "{n}'s job|the job of {n}|{n}'s profession|the profession of {n}|{n}'s work|the occupation of {n}", """
        <so>[what does {n} do for a living|what does {n} work as|what does {n} do|what is {n} by profession]<end>
        <so>[which|what] [job|profession|occupation] does {n} have<end>
        <so>[what kind of work does {n} do|what does {n} do all day at work|as what does {n} work|what is {n}]<end>
        <so>[what does {n} get paid for|what would it say on {n}'s business card|what is {n}'s line of work]<end>
        <tell>[what {n} does for a living|what {n} works as|what {n}'s job is|which job {n} has|\
            what {n} is by profession].
        """),
    "hobby": _asks(
        "{n}'s hobby|the hobby of {n}|{n}'s favorite hobby|the thing that {n} likes to do|{n}'s pastime", """
        <so>[what does {n} like|what does {n} do for fun|what does {n} enjoy|what does {n} love|\
            what is {n} fond of]<end>
        <so>[which|what] [hobby|pastime] does {n} [have|enjoy|like]<end>
        <so>[what does {n} do on weekends|what does {n} do after work|how does {n} relax|\
            how does {n} spend a free day]<end>
        <so>[what makes {n} happy|what is {n} into|what does {n} do when there is time|\
            what would {n} do on a holiday]<end>
        <tell>[what {n} likes|what {n}'s hobby is|what {n} does for fun|which hobby {n} has|how {n} relaxes].
        """),
    "pet": _asks(
        "{n}'s pet|the pet of {n}|the pet that {n} has|{n}'s animal|the animal of {n}", """
        <so>[which|what] [pet|animal|kind of pet|kind of animal] does {n} [have|own|keep|live with|take care of]<end>
        <so>[what animal lives with {n}|who waits for {n} at home|what animal belongs to {n}|\
            what does {n} have to feed]<end>
        <so>[what kind of pet is {n}'s|which animal shares a home with {n}|what pet would I see with {n}]<end>
        <tell>[what pet {n} has|which animal {n} keeps|what {n}'s pet is|which animal lives with {n}].
        """),
    "color": _asks(
        "{n}'s favorite color|the favorite color of {n}|the color that {n} likes best|{n}'s best color", """
        <so>[which|what] color does {n} [like best|prefer|love|like most|like]<end>
        <so>[in which color should I paint {n}'s door|which color should a present for {n} have|\
            what color suits {n}]<end>
        <so>[what color does {n} like more than others|which is the color that {n} loves|what color would {n} wear]<end>
        <tell>[which color {n} likes best|what {n}'s favorite color is|what color {n} prefers].
        """),
}
UNSEEN_ASKS = {
    "city": ("If I wanted to visit {n}, where would I have to go?",), "job": ("How does {n} earn money?",),
    "hobby": ("In spare time, what keeps {n} busy?",), "pet": ("Is there an animal at {n}'s place, and which?",),
    "color": ("Of all colors, which one would {n} pick?",),
}
"""Questions that only the evaluation asks."""
LEADS = ("Notes:\n", "Read the notes and answer.\n\n", "Passage:\n", "", "Here are my notes.\n",
"Some facts about people:\n",
         "Use only the notes to answer.\n\n", "Context:\n", "Text:\n")
LABELS = (("Q", "A"), ("Q", "A"), ("Question", "Answer"), ("User", "Assistant"))
ABSENT = "The notes do not say."


def _question(rng: Random, wordings: tuple[str, ...], name: str) -> str:
    return upper_first(expand(rng, rng.choice(wordings)).format(n=name))


def notes(rng: Random, lines: int, *, unseen: bool = False) -> Passage:
    """So many lines, in an order of their own, and one to four questions."""
    names = rng.sample(PEOPLE, min(lines, len(PEOPLE) - 2))
    known = {(name, field): rng.choice(WORDS[field])
             for name in names for field in rng.sample(list(WORDS), 1 + (lines > len(names)))}
    told = [upper_first(expand(rng, rng.choice(SAYS[field])).format(n=name, v=value, a=a(value)))
            for (name, field), value in known.items()]
    rng.shuffle(told)
    wordings = UNSEEN_ASKS if unseen else ASKS
    question, reply = rng.choice(LABELS)
    asked = []
    for _ in range(rng.randint(1, 4)):
        name, field = rng.choice(list(known))
        if rng.random() < 0.15:
            name = rng.choice([person for person in PEOPLE if (person, field) not in known])
        value = known.get((name, field))
        answer = ABSENT if value is None else upper_first(value)
        asked.append(f"{question}: {_question(rng, wordings[field], name)}\n{reply}:{JOINT} {answer}")
    text = f"{rng.choice(LEADS)}{rng.choice((' ', chr(10))).join(told)}\n\n" + "\n".join(asked)
    facts = sorted("/".join((*who, value)) for who, value in known.items())
    return Passage(f"notes/{'|'.join(facts)}", text)


def notes_unseen(rng: Random, lines: int) -> Passage:
    return notes(rng, lines, unseen=True)
