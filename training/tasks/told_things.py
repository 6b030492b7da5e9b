"""Topics made on the spot: what a user may tell of a thing, a person, a number, a place or an event of his or hers.

There are millions of them, so that what is learned is to find the told words again, not a list of topics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from .event_asks import missing_question, own_question, sentence
from .events import Event, event, teller, who
from .invented import BEASTS, CITIES, FRUITS, MONTHS, MUSIC, SPICES, SPOTS, somebody, stem
from .scenes import COMMON, KINDS, Attribute, Kind
from .told_topics import CODE_WORDS, PLACES, Topic

OWN_KINDS = {kind.noun: kind for kind in KINDS if kind.noun in COMMON and kind.noun != "building"}
ELSEWHERE = {"car": "color", "dog": "name", "sister": "name"}
"""What is a topic in told_topics already."""
NOT_OWN = frozenset(("meeting", "friend"))
SHARED = frozenset(("(street)", "(tenant)", "name"))
"""Attributes whose question a fixed topic answers too, or that the user would not tell."""
FAVORITES: dict[str, Sequence[str]] = {
    "animal": BEASTS, "fruit": FRUITS, "spice": SPICES, "month": MONTHS, "city": CITIES,
    "season": ("spring", "summer", "autumn", "winter"), "music": MUSIC,
    "flower": ("roses", "tulips", "lilies", "daisies", "orchids"), "weather": ("rain", "sun", "snow", "wind"),
    "planet": ("Mars", "Venus", "Saturn", "Jupiter"),
    "shape": ("a circle", "a square", "a star"), "tree": ("the oak", "the willow", "the pine", "the birch"),
}
LAID = ("wallet", "passport", "glasses*", "umbrella", "charger", "ticket", "notebook", "gloves*", "scarf",
        "ring", "watch", "backpack", "headphones*", "scissors*", "library card", "tent", "flute", "diary",
        "sunglasses*", "boots*", "medicine", "toothbrush", "map", "flashlight", "raincoat")
CODES = ("wifi password", "door code", "locker number", "alarm code", "order number", "seat number", "gym password",
         "garage code", "room number", "computer password", "safe code", "membership number", "customer number",
         "booking code", "flight number", "bike lock code", "voucher code", "locker code", "train seat", "pin code",
         "printer password", "case number", "apartment number", "license plate", "guest password", "parcel number")
SERVANTS = ("doctor", "dentist", "landlord", "coach", "hairdresser", "plumber", "lawyer", "tutor", "boss",
            "manager", "gardener", "best friend", "godmother", "babysitter",
            "mechanic", "driving instructor", "new colleague", "nurse", "bank adviser", "hero")


def group(topic: Topic) -> str:
    """Of some groups a conversation has one topic, lest a question fit two."""
    noun = topic.noun
    if noun in ("pet", "dog's name") or noun.startswith(("pet/", "event/adopt/")):
        return "pet"
    if noun == "car color" or noun.startswith("vehicle/car/") or (noun.startswith("event/") and " car/" in noun):
        return "car"
    return "code" if noun in ("code word", "number to remember") or noun.startswith("code/") else ""


def made_topic(rng: Random) -> Topic:
    return rng.choice(MAKERS)(rng)


def _thing(rng: Random) -> Topic:
    """Something of the user's and one thing about it."""
    kind = rng.choice(tuple(OWN_KINDS.values()))
    noun = rng.choice([noun for noun in COMMON[kind.noun] if noun not in NOT_OWN])
    return _thing_topic(kind, noun, rng.choice(kind.attributes)) or _laid(rng)


def _thing_topic(kind: Kind, noun: str, attribute: Attribute) -> Topic | None:
    label = attribute.noun
    if label == ELSEWHERE.get(noun) or (kind.noun == "home" and label in SHARED):
        return None
    mine = f"my {noun}"

    def near(rng: Random) -> Topic | None:
        if rng.random() < 0.5:
            return _thing_topic(kind, noun, rng.choice(kind.attributes))
        return _thing_topic(kind, rng.choice([other for other in COMMON[kind.noun] if other not in NOT_OWN]), attribute)

    tells = (*(f"{mine} {says}." for says in attribute.predicates),
             *(f"{says}." for says in _with(mine, attribute.sentences)))
    return Topic(f"{kind.noun}/{noun}/{attribute.asks[0]}", attribute.value, tells,
                 (*_with(mine, attribute.asks), *_with(mine, (attribute.unseen_ask,))),
                 f"your {noun} {attribute.predicates[0]}.", near=near)


def _with(name: str, templates: Sequence[str]) -> tuple[str, ...]:
    return tuple(template.replace("{e}", name) for template in templates)


def _laid(rng: Random) -> Topic:
    """Where something was put."""
    noun = rng.choice(LAID)
    many, noun = noun.endswith("*"), noun.rstrip("*")
    be, it = ("are", "they are") if many else ("is", "it is")
    did = rng.choice(("put", "left", "hid", "placed", "stored"))
    base = {"left": "leave", "hid": "hide", "placed": "place", "stored": "store"}.get(did, did)
    return Topic(f"laid/{noun}", lambda rng: rng.choice(rng.choice((PLACES, SPOTS))),
                 (f"I {did} my {noun} {{v}}.", f"my {noun} {be} {{v}}.", f"{{v}} is where I {did} my {noun}.",
                  f"I just {did} my {noun} {{v}}.", f"if you need my {noun}, {it} {{v}}."),
                 (f"Where {be} my {noun}?", f"Where did I {base} my {noun}?", f"Do you know where my {noun} {be}?",
                  f"Tell me where I {did} my {noun}.", f"I need my {noun}. Where {be} {'they' if many else 'it'}?",
                  f"Where can I find my {noun}?", f"I can't find my {noun}. Any hint?"),
                 f"your {noun} {be} {{v}}.",
                 (f"I moved my {noun}. Now {it} {{v}}.", f"my {noun} {be} {{v}} now."), near=_laid)


def _code_value(rng: Random) -> str:
    way = rng.random()
    if way < 0.4:
        return str(rng.randint(10, 99999))
    if way < 0.7:
        return rng.choice(CODE_WORDS) + rng.choice(("", str(rng.randint(1, 99))))
    return stem(rng).lower() + stem(rng).lower() if way < 0.85 else f"{stem(rng)[0]}{rng.randint(10, 999)}"


def _code(rng: Random) -> Topic:
    noun = rng.choice(CODES)
    whose = rng.choice(("the", "the", "my", "our"))
    yours = "the" if whose == "the" else "your"
    return Topic(f"code/{noun}", _code_value,
                 (f"{whose} {noun} is {{v}}.", f"{noun}: {{v}}.", f"please note that {whose} {noun} is {{v}}.",
                  f"I wrote down {{v}} as {whose} {noun}.", f"{{v}} is {whose} {noun}."),
                 (f"What is {whose} {noun}?", f"What was {whose} {noun}?", f"Tell me {whose} {noun}.",
                  f"I need {whose} {noun}.", f"Which {noun} did I give you?", f"Can you repeat {whose} {noun}?",
                  f"Please type {whose} {noun} for me."), f"{yours} {noun} is {{v}}.",
                 (f"{whose} new {noun} is {{v}}.", f"{whose} {noun} was changed to {{v}}."), near=_code)


def _servant(rng: Random) -> Topic:
    """What somebody is called."""
    noun = rng.choice(SERVANTS)
    return Topic(f"called/{noun}", somebody,
                 (f"my {noun} is {{v}}.", f"my {noun} is called {{v}}.", f"the name of my {noun} is {{v}}.",
                  f"my {noun}'s name is {{v}}.", f"{{v}} is my {noun}.", f"I have a {noun} named {{v}}."),
                 (f"Who is my {noun}?", f"What is my {noun} called?", f"What is the name of my {noun}?",
                  f"What is my {noun}'s name?", f"Tell me the name of my {noun}.", f"How is my {noun} called?",
                  f"Which name do I use for my {noun}?"), f"your {noun} is {{v}}.",
                 (f"my new {noun} is {{v}}.", f"{{v}} is my {noun} now."), near=_servant)


def _favorite(rng: Random) -> Topic:
    noun = rng.choice(tuple(FAVORITES))
    words = FAVORITES[noun]
    return Topic(f"favorite/{noun}", lambda rng: rng.choice(words),
                 (f"my favorite {noun} is {{v}}.", f"the {noun} I like best is {{v}}.", f"{{v}} is my favorite {noun}.",
                  f"when it comes to a {noun}, I like {{v}} best."),
                 (f"What is my favorite {noun}?", f"Which {noun} do I like best?", f"What {noun} do I like best?",
                  f"Tell me my favorite {noun}.", f"What's my favorite {noun}?", f"My favorite {noun} is which one?"),
                 f"your favorite {noun} is {{v}}.", (f"my favorite {noun} is {{v}} now.",), near=_favorite)


def _event(rng: Random) -> Topic:
    """Something that the user or somebody near did; one part of it is asked for."""
    subject = teller(rng)
    made = event(rng, subject, {who(subject[0])})
    asked = own_question(rng, made)
    return Topic(f"event/{made.verb.ways[0][0]}/{made.key}", lambda _: asked.short, (sentence(rng, made),),
                 (asked.question, own_question(rng, made, asked.name, unseen=True).question), asked.full,
                 near=lambda rng: _event_gap(rng, made))


def _event_gap(rng: Random, made: Event) -> Topic | None:
    question = missing_question(rng, made)
    return Topic(f"gap/{made.key}", lambda _: "", (), (question, question), "") if question else None


MAKERS: tuple[Callable[[Random], Topic], ...] = (_thing, _thing, _thing, _event, _event, _event, _laid, _laid, _code,
                                                _servant, _favorite)
