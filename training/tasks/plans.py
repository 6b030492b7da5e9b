"""Characters and their days: a plan that fits the job, what comes next, how much a memory matters, what is remembered.

The pieces of a program about characters that live in a small town: a persona, a plan with times, a question about an
hour of it, a rating of a memory from 1 to 10 (with honest noise), a line of dialogue, a look into a list of memories.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from ..forms import chat
from ..items import JOINT, Item, Passage, a, upper_first
from ..tables import table
from .invented import CITIES, COLORS, PEOPLE, PETS
from .plan_words import HOUR_ASKS, JSON_ASKS, NEXT_ASKS, PLAN_ASKS, RATING_ASKS, REMEMBER_ASKS, REMEMBER_LEADS
from .requests import about, said

DATA = table("plans")

NAMES = (*PEOPLE, "Klaus", "Maria", "Isabella", "Hugo", "Lena", "Omar", "Priya", "Marco", "Sofia", "Yuki")
TRAITS = ("friendly", "shy", "curious", "patient", "cheerful", "careful", "quiet", "brave", "funny", "honest", "proud",
          "generous", "forgetful", "hardworking", "dreamy", "stubborn")
HOBBIES = {"chess": "play chess", "swimming": "swim in the pool", "reading": "read a novel",
           "painting": "paint a picture", "cycling": "ride the bicycle", "gardening": "work in the garden",
           "hiking": "hike in the hills", "dancing": "dance at the club", "fishing": "fish at the lake",
           "football": "play football", "photography": "take photographs", "singing": "sing in the choir",
           "tennis": "play tennis", "skating": "skate in the park", "yoga": "do yoga", "music": "play the guitar"}


class Job(NamedTuple):
    """Times are in half hours since midnight: when the day starts, and from when to when the work lasts."""

    name: str
    place: str
    wake: int
    start: int
    end: int
    work: tuple[str, ...]


JOBS = DATA.get("jobs", tuple[Job, ...])
NIGHT_JOBS = DATA.get("night_jobs", tuple[Job, ...])

MORNING = ("eat breakfast", "drink coffee on the porch", "have breakfast in the kitchen", "eat a bowl of oatmeal")
LUNCH = ("eat lunch", "have lunch in the sun", "eat a sandwich", "have soup for lunch")
GO = ("walk to the {p}", "cycle to the {p}", "take the bus to the {p}")
HOME = ("go home", "walk home", "take the bus home")
ERRANDS = ("buy groceries", "visit a neighbor", "take a nap", "go for a walk in {c}", "feed the {a}",
           "call an old friend", "clean the kitchen", "drink tea on the balcony", "wash the clothes", "write a letter")
DINNER = ("cook dinner", "eat dinner", "have dinner with friends", "eat dinner by the window")
WAKE, SLEEP = "wake up", "go to bed"


class Persona(NamedTuple):
    name: str
    age: int
    job: Job
    traits: tuple[str, str]
    city: str
    hobby: str
    pet: str


Plan = tuple[tuple[str, str], ...]
"""Times such as "7:30" with what is done then, ascending."""


def persona(rng: Random) -> Persona:
    job = rng.choice(NIGHT_JOBS) if rng.random() < 0.12 else rng.choice(JOBS)
    age = rng.randint(18, 26) if job.name == "student" else rng.randint(22, 66)
    first, second = rng.sample(TRAITS, 2)
    return Persona(rng.choice(NAMES), age, job, (first, second), rng.choice(CITIES), rng.choice(tuple(HOBBIES)),
                   rng.choice(PETS))


PERSONA_LINES = (
    "{n} is {j} of {y} who lives in {c}. {n} is {t} and {u}, loves {h} and has {p}.",
    "{n}, {y}, works as {j} in {c}. {n} is {t} and {u}. The hobby of {n} is {h}, and there is {p} at home.",
    "Name: {n}. Age: {y}. Job: {k}. Traits: {t}, {u}. City: {c}. Hobby: {h}. Pet: {q}.",
    "{n} is {y} years old, {t} and {u}. {n} is {j} in {c}, likes {h} and owns {p}.",
    "In {c} lives {n}, {j}. {n} is {y}, {t} and {u}, enjoys {h} and keeps {p}.",
)


def persona_line(rng: Random, who: Persona) -> str:
    return rng.choice(PERSONA_LINES).format(
        n=who.name, y=who.age, j=a(who.job.name), k=who.job.name, t=who.traits[0], u=who.traits[1], c=who.city,
        h=who.hobby, p=a(who.pet), q=who.pet)


@cache
def clock(half_hours: int) -> str:
    return f"{half_hours // 2}:{'30' if half_hours % 2 else '00'}"


def _spread(rng: Random, first: int, last: int, count: int) -> list[int]:
    return sorted(rng.sample(range(first, last), count))


def _steps(rng: Random, who: Persona) -> list[tuple[int, str]]:
    """A full day. Who works at night comes home in the morning and leaves in the evening."""
    job = who.job
    go = rng.choice(GO).format(p=job.place)
    errands = [text.format(c=who.city, a=who.pet) for text in rng.sample(ERRANDS, 2)]
    free = rng.sample((errands[0], HOBBIES[who.hobby]), 2)
    if job in NIGHT_JOBS:
        late = _spread(rng, job.start + 1, 48, 2)
        day = rng.choice((job.wake - 1, job.wake, job.wake + 1))
        times = [day, day + 1, *_spread(rng, day + 2, 38, 2), 38, job.start - 1, *late]
        does = [WAKE, rng.choice(MORNING), *free, rng.choice(DINNER), go, *rng.sample(job.work, 2)]
        return [(job.end, rng.choice(HOME)), (job.end + rng.randint(1, 3), SLEEP), *zip(times, does, strict=True)]
    wake = min(job.wake + rng.choice((-1, 0, 0, 1)), job.start - 2)
    noon = (job.start + job.end) // 2 + rng.choice((-1, 0, 1))
    before, after = _spread(rng, job.start + 1, noon, 2), _spread(rng, noon + 2, job.end, 2)
    work = rng.sample(job.work, 4)
    bed = min(max(wake + 32, job.end + 6), 47)
    evening = _spread(rng, job.end + 1, min(bed, job.end + 11), 3)
    times = [wake, wake + 1, job.start, *before, noon, *after, job.end, *evening, bed]
    meal = rng.choice(DINNER)
    does = [WAKE, rng.choice(MORNING), go, *work[:2], rng.choice(LUNCH), *work[2:], rng.choice(HOME),
            *rng.choice(([meal, *free], [free[0], meal, free[1]])), SLEEP]
    return list(zip(times, does, strict=True))


def make_plan(rng: Random, who: Persona, count: int) -> Plan:
    """`count` of the day's steps, among them the first, the last and something of the work."""
    steps = _steps(rng, who)
    inner = range(1, len(steps) - 1)
    work = rng.choice([i for i in inner if steps[i][1] in who.job.work])
    others = rng.sample([i for i in inner if i != work], count - 3)
    kept = sorted((0, work, *others, len(steps) - 1))
    return tuple((clock(steps[i][0]), steps[i][1]) for i in kept)


def fitting(who: Persona) -> frozenset[str]:
    """Everything that may stand in the plan of a character."""
    errands = (text.format(c=who.city, a=who.pet) for text in ERRANDS)
    ways = (text.format(p=who.job.place) for text in GO)
    return frozenset((WAKE, SLEEP, *MORNING, *LUNCH, *HOME, *DINNER, *who.job.work, *errands, *ways,
                      HOBBIES[who.hobby]))


def key_of(who: Persona) -> str:
    return f"persona/{who.name}/{who.age}/{who.job.name}/{who.city}/{who.hobby}/{who.pet}"


def lines_of(plan: Plan) -> str:
    return "\n".join(f"{time} {do}" for time, do in plan)


def plan_json(who: Persona, plan: Plan) -> str:
    return json.dumps({"name": who.name, "plan": [{"time": time, "do": do} for time, do in plan]})


def doing(do: str) -> str:
    """`bake bread` to `baking bread`."""
    verb, blank, rest = do.partition(" ")
    if verb in ("cut", "plan", "swim"):
        verb += verb[-1]
    return verb.removesuffix("e") + "ing" + blank + rest


GAPS = ("\n", "\n\n")
COUNTS = {4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight"}


def _plan_ask(rng: Random, asks: Sequence[str], who: Persona, count: int) -> str:
    number = rng.choice((str(count), COUNTS[count]))
    return about(rng, rng.choice(asks), persona_line(rng, who), "Character", p=who.name, n=number)


def plan_case(rng: Random, asks: Sequence[str] = PLAN_ASKS) -> tuple[Persona, int, Item]:
    """A plan in lines, with what a judge needs to know of it."""
    who, count = persona(rng), rng.choice(tuple(COUNTS))
    text = lines_of(make_plan(rng, who, count))
    return who, count, Item(key_of(who), _plan_ask(rng, asks, who, count), text, text)


def plan(rng: Random) -> Item:
    return plan_case(rng)[2]


def plan_object(rng: Random) -> Item:
    who, count = persona(rng), rng.choice(tuple(COUNTS))
    text = plan_json(who, make_plan(rng, who, count))
    return Item(key_of(who), _plan_ask(rng, JSON_ASKS, who, count), text, text)


def plan_text(rng: Random) -> Passage:
    """A persona and the plan, hour by hour, where a program may give every time itself; or a talk about a plan."""
    way = rng.random()
    if way < 0.5:
        return plan_talk(rng) if way < 0.3 else memory_talk(rng)
    who = persona(rng)
    made = make_plan(rng, who, rng.choice(tuple(COUNTS)))
    lead = persona_line(rng, who) + rng.choice(("\n", "\n\n"))
    if rng.random() < 0.4:
        told = rng.choice((" ", "\n")).join(f"At {time} {who.name} is{JOINT} {doing(do)}." for time, do in made)
        return Passage(key_of(who), lead + told + "\n")
    head = rng.choice(("Plan for the day:\n", "Plan for the day\n", f"The day of {who.name}:\n", "Schedule:\n"))
    text = "\n".join(f"{time}{JOINT} {do}" for time, do in made)
    return Passage(key_of(who), f"{lead}{head}{JOINT}{text}\n")


def _shown_plan(rng: Random, who: Persona, made: Plan) -> str:
    lead = rng.choice(("", persona_line(rng, who) + "\n")) + rng.choice(("Plan of {p}:\n", "The day of {p}:\n"))
    return lead.format(p=who.name) + lines_of(made)


def _hour_turn(rng: Random, who: Persona, made: Plan) -> tuple[str, str, str]:
    """What somebody is doing at an hour: the last line that is not later. The question, the answer, the full one."""
    i = rng.randrange(len(made) - 1)
    time, do = made[i]
    hour, _, half = time.partition(":")
    later = clock(2 * int(hour) + (half == "30") + 1)
    at = later if rng.random() < 0.4 and later != made[i + 1][0] else time
    ask = said(rng, rng.choice(HOUR_ASKS), p=who.name, t=at)
    return ask, doing(do), f"The plan says {time} {do}. So {who.name} is {doing(do)}."


def _next_turn(rng: Random, who: Persona, made: Plan) -> tuple[str, str, str]:
    """The line after one of the plan; that line is said first."""
    i = rng.randrange(len(made) - 1)
    (before, done), (time, do) = made[i], made[i + 1]
    ask = said(rng, rng.choice(NEXT_ASKS), p=who.name, d=doing(done), t=before)
    return ask, do, f"After {before} {done} comes {time} {do}."


TURNS = (_hour_turn, _next_turn)


def _about_plan(rng: Random, turn: Callable[[Random, Persona, Plan], tuple[str, str, str]]) -> Item:
    who = persona(rng)
    made = make_plan(rng, who, rng.choice(tuple(COUNTS)))
    ask, short, full = turn(rng, who, made)
    shown = _shown_plan(rng, who, made)
    text = f"{ask}\n\n{shown}" if rng.random() < 0.15 else f"{shown}{rng.choice(GAPS)}{ask}"
    return Item(key_of(who), text, short, full)


def at_hour(rng: Random) -> Item:
    return _about_plan(rng, _hour_turn)


def next_action(rng: Random) -> Item:
    return _about_plan(rng, _next_turn)


def plan_talk(rng: Random) -> Passage:
    """A chat with several questions about one plan."""
    who = persona(rng)
    made = make_plan(rng, who, rng.choice(tuple(COUNTS)))
    turns = []
    for i in range(rng.randint(3, 5)):
        ask, _, full = rng.choice(TURNS)(rng, who, made)
        turns.append((ask if i else f"{_shown_plan(rng, who, made)}\n\n{ask}", full))
    return Passage(key_of(who), chat(turns))


EVENTS = DATA.get("events", tuple[tuple[int, str], ...])
WHEN = ("", " on Monday", " on Friday", " last week", " this morning", " yesterday", " in spring", " on a rainy day",
        " last summer", " two days ago", " before noon", " in December")
def rating_case(rng: Random, asks: Sequence[str] = RATING_ASKS) -> tuple[int, Item]:
    """The importance of a memory, and the item; two times in seven the item has the number above or below."""
    base, event = rng.choice(EVENTS)
    name, other = rng.sample(NAMES, 2)
    text = event.format(n=name, m=other, c=rng.choice(CITIES), a=rng.choice(PETS), k=rng.choice(COLORS),
                        w=rng.choice(WHEN))
    memory = upper_first(text) + "."
    number = str(min(max(base + rng.choice((-1, 0, 0, 0, 0, 0, 1)), 1), 10))
    ask = about(rng, rng.choice(asks), memory, "Memory")
    return base, Item(f"event/{memory}", ask, number, number, memory, ("Memory", "Importance"))


def rating(rng: Random) -> Item:
    return rating_case(rng)[1]


LINES = ("Good morning, {m}! Did you {d} yesterday?", "Hello, {m}! Would you like to {d} with me on Sunday?",
         "Hi, {m}! I heard that you like to {d}.", "{m}, how nice to see you! Do you still {d} every week?")
REPLIES = ("Hello, {n}! Yes, I love to {d}.", "Good to see you, {n}! I will {d} tonight.",
           "Thank you for asking, {n}. I always find time to {d}.", "Oh, {n}, I would rather {d} than work today.")
MEETINGS = ("{n} meets {m} in {c}.", "{n} and {m} sit in a cafe.", "{n} sees {m} at the market.",
            "{n} and {m} wait for the bus.", "{n} knocks at the door of {m}.")


def dialogue(rng: Random) -> Passage:
    """Two characters meet; what is said fits the hobby of the second."""
    first, second = persona(rng), persona(rng)
    while second.name == first.name:
        second = persona(rng)
    names = {"n": first.name, "m": second.name, "c": first.city, "d": HOBBIES[second.hobby]}
    likes = f"{second.name} is {a(second.job.name)} who loves {second.hobby}."
    meets = rng.choice(MEETINGS).format(**names)
    head = f"{first.name} is {a(first.job.name)} who loves {first.hobby}. {likes} {meets}"
    says = f"{first.name}:{JOINT} {rng.choice(LINES).format(**names)}\n"
    reply = f"{second.name}:{JOINT} {rng.choice(REPLIES).format(**names)}\n"
    return Passage(f"dialogue/{key_of(first)}/{key_of(second)}", f"{head}\n{says}{reply}")


FACTS = ("{n} likes {h}", "{n} lives in {c}", "{n} works at the {w}", "{n} has a {a}", "{n} bought {k} hat",
         "{n} lost {k} umbrella", "{n} wants to travel to {c}", "{n} is afraid of the {a}", "{n} has a sister in {c}")


class Memories(NamedTuple):
    """What `who` keeps in mind: sentences, each about one of `others`."""

    who: str
    others: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]

    def about(self, name: str) -> str:
        """All sentences about somebody in their order, or that there are none."""
        found = [f"{line}." for other, line in self.lines if other == name]
        return " ".join(found) or f"{self.who} remembers nothing about {name}."


def memories(rng: Random) -> Memories:
    who, *others = rng.sample(NAMES, rng.choice((3, 4, 5)))
    facts = rng.sample(FACTS, rng.randint(2, 6))
    about_whom = [rng.choice(others) for _ in facts]
    lines = ((name, fact.format(n=name, h=rng.choice(tuple(HOBBIES)), c=rng.choice(CITIES), a=rng.choice(PETS),
                                w=rng.choice(JOBS).place, k=a(rng.choice(COLORS))))
             for name, fact in zip(about_whom, facts, strict=True))
    return Memories(who, tuple(others), tuple(lines))


def _shown_memories(rng: Random, made: Memories) -> str:
    shown = rng.choice(("\n", " ", "\n")).join(f"{line}." for _, line in made.lines)
    return said(rng, rng.choice(REMEMBER_LEADS), w=made.who) + rng.choice(("\n", "\n", " ")) + shown


def _someone(rng: Random, made: Memories) -> str:
    """Mostly one about whom something is remembered."""
    return rng.choice(made.lines)[0] if rng.random() < 0.75 else rng.choice(made.others)


def _memory_key(made: Memories) -> str:
    return f"memories/{'/'.join(line for _, line in made.lines)}"


def remembers(rng: Random) -> Item:
    """All that a list of memories says about one person, in the words of the list."""
    made = memories(rng)
    name = _someone(rng, made)
    ask = said(rng, rng.choice(REMEMBER_ASKS), w=made.who, o=name)
    shown = _shown_memories(rng, made)
    text = f"{ask}\n\n{shown}" if rng.random() < 0.15 else f"{shown}{rng.choice(GAPS)}{ask}"
    return Item(_memory_key(made), text, made.about(name), made.about(name))


def memory_talk(rng: Random) -> Passage:
    """A chat about the memories, one person after the other."""
    made = memories(rng)
    asked = rng.sample(made.others, rng.randint(2, len(made.others)))
    turns = [(said(rng, rng.choice(REMEMBER_ASKS), w=made.who, o=name), made.about(name)) for name in asked]
    turns[0] = (f"{_shown_memories(rng, made)}\n\n{turns[0][0]}", turns[0][1])
    return Passage(_memory_key(made), chat(turns))
