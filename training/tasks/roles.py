"""Chats whose system line says who the assistant and the user are, or how answers must sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from .. import forms
from ..items import Item, Passage, a, held_out, upper_first
from .invented import COLORS, FOODS, HOBBIES, INSTRUMENTS, JOBS, LANGUAGES, PETS, brand, first_name, stem, town
from .scenes import COMMON
from .told_things import OWN_KINDS

WORKPLACES = ("bakery", "library", "museum", "hotel", "hospital", "school", "bookshop", "garden", "theater", "bank",
              "zoo", "restaurant", "factory", "flower shop", "station", "castle")


@dataclass(frozen=True, slots=True)
class Role:
    """Something about the assistant or the user. The last of the asks is for the evaluation only."""

    noun: str
    value: Callable[[Random], str]
    says: tuple[str, ...]
    asks: tuple[str, ...]
    answer: str


def _of(words: Sequence[str]) -> Callable[[Random], str]:
    return lambda rng: rng.choice(words)


def _name(rng: Random) -> str:
    return first_name(rng)[0]


ROLES = (
    Role("assistant name", _name, ("Your name is {v}.", "You are {v}.", "You are called {v}.",
                                   "You are an assistant named {v}."),
         ("What is your name?", "Who are you?", "What are you called?", "What's your name?", "What should I call you?",
          "Tell me your name.", "Could you introduce yourself?"), "My name is {v}."),
    Role("assistant workplace", _of(WORKPLACES), ("You work in {a}.", "Your workplace is {a}.",
                                                "You are the voice of {a}."),
         ("Where do you work?", "In what place do you work?", "What is your workplace?", "Which place do you work in?",
          "At what kind of place would I find you?"), "I work in {a}."),
    Role("assistant town", town, ("You live in {v}.", "Your home is in {v}.", "Your home town is {v}."),
         ("Where do you live?", "What is your home town?", "In which town do you live?", "Which town is your home?"),
         "I live in {v}."),
    Role("assistant boss", _name, ("Your boss is {v}.", "Your boss is called {v}.", "You work for your boss {v}."),
         ("Who is your boss?", "What is the name of your boss?", "For whom do you work?", "Who gives you orders?"),
         "My boss is {v}."),
    Role("assistant maker", brand, ("You were made by {v}.", "You were built by {v}.", "{v} made you."),
         ("Who made you?", "Who built you?", "Which company made you?", "Which company do you come from?"),
         "I was made by {v}."),
    Role("assistant color", _of(COLORS), ("Your favorite color is {v}.", "You like {v} best of all colors."),
         ("What is your favorite color?", "Which color do you like best?", "What color do you like?",
          "Which color do you prefer?"), "My favorite color is {v}."),
    Role("assistant food", _of(FOODS), ("Your favorite food is {v}.", "The food you like best is {v}."),
         ("What is your favorite food?", "What food do you like best?", "What do you like to eat?",
          "Which meal do you love?"), "My favorite food is {v}."),
    Role("assistant instrument", _of(INSTRUMENTS), ("You play the {v}.", "Your instrument is the {v}."),
         ("What instrument do you play?", "Which instrument do you play?", "What is your instrument?",
          "On which instrument are you good?"), "I play the {v}."),
    Role("user name", _name, ("The user's name is {v}.", "The user is called {v}.", "The name of the user is {v}.",
                              "You talk with {v}."),
         ("What is my name?", "Who am I?", "Do you know my name?", "What's my name?", "What am I called?",
          "With whom are you talking?"), "Your name is {v}."),
    Role("user city", town, ("The user lives in {v}.", "The user's home is in {v}.",
                            "The home town of the user is {v}."),
         ("Where do I live?", "What is my home town?", "In which town do I live?", "Which town is my home?"),
         "You live in {v}."),
    Role("user job", _of(JOBS), ("The user is {a}.", "The user works as {a}.", "The user's job is {v}."),
         ("What is my job?", "What do I do for a living?", "What do I work as?", "What kind of work do I do?"),
         "You work as {a}."),
    Role("user hobby", _of(HOBBIES), ("The user's hobby is {v}.", "The user loves {v}.", "The user enjoys {v}."),
         ("What is my hobby?", "What do I enjoy?", "What do I do in my free time?", "What do I like doing?"),
         "Your hobby is {v}."),
    Role("user pet", _of(PETS), ("The user has {a}.", "The user's pet is {a}.", "The user keeps {a}."),
         ("What pet do I have?", "What is my pet?", "Which animal do I have?", "What animal lives with me?"),
         "You have {a}."),
    Role("user language", _of(LANGUAGES), ("The user is learning {v}.", "The user takes lessons in {v}."),
         ("What language am I learning?", "Which language do I study?", "What language do I take lessons in?",
          "Which language are my lessons in?"), "You are learning {v}."),
)
LEADS = ("", "", "You are a helpful assistant. ", "You are a friendly assistant. ", "Some facts. ", "Remember: ")

END_WORDS = ("Over.", "Done.", "Meow.", "Ahoy!", "Cheers!", "Bye.", "Thank you.", "Hooray!", "Amen.", "That is all.")
TITLES = ("captain", "sir", "madam", "doctor", "my friend", "boss", "professor", "chief", "your majesty", "coach")
END_SYSTEMS = ("End every answer with: {w}", "Say \"{w}\" at the end of every answer.", "Every answer ends with: {w}",
               "Finish each answer with: {w}", "After every answer, say: {w}")
BEGIN_SYSTEMS = ("Begin every answer with: {w}", "Say \"{w}\" before every answer.", "Every answer begins with: {w}",
                 "Start each answer with: {w}")
TITLE_SYSTEMS = ("Call the user {t}.", "Address the user as {t}.", "Always call the user {t}.",
                 "You say {t} to the user.")
Style = Callable[[str], str]


def style(rng: Random) -> tuple[str, Style]:
    """A line that says how answers must sound, and what makes them sound so."""
    way = rng.random()
    if way < 0.4:
        title = rng.choice(TITLES)
        return rng.choice(TITLE_SYSTEMS).replace("{t}", title), lambda text: f"{text.rstrip('.')}, {title}."
    word = rng.choice(END_WORDS) if rng.random() < 0.6 else f"{stem(rng)}."
    if way < 0.8:
        return rng.choice(END_SYSTEMS).replace("{w}", word), lambda text: f"{text} {word}"
    return rng.choice(BEGIN_SYSTEMS).replace("{w}", word), lambda text: f"{word} {text}"


def _filled(template: str, value: str) -> str:
    return upper_first(template.replace("{v}", value).replace("{a}", a(value)))


ASK_FRAMES = (*["{q}"] * 8, "Tell me: {q}", "One question: {q}", "{q} Please tell me.", "Hello! {q}",
              "So, tell me: {q}", "I want to know: {q}", "{q} You should know.", "Quick question: {q}", "Now: {q}",
              "Please answer: {q}", "By the way: {q}", "Hi. {q}", "I am curious: {q}", "Do you know? {q}")


def _own_thing(rng: Random) -> Role:
    """Something that the assistant or the user has or knows, and one thing about it."""
    kind = rng.choice(tuple(OWN_KINDS.values()))
    noun = rng.choice(COMMON[kind.noun])
    attribute = rng.choice(kind.attributes)
    theirs, asked, told = rng.choice((("the user's", "my", "your"), ("your", "your", "my")))
    thing = f"{theirs} {noun}"
    asks = [ask.replace("{e}", f"{asked} {noun}") for ask in (*attribute.asks, attribute.unseen_ask)]
    says = (*(f"{thing} {says}." for says in attribute.predicates),
            *(f"{says.replace('{e}', thing)}." for says in attribute.sentences))
    return Role(f"{thing}/{attribute.asks[0]}", attribute.value, says, tuple(asks),
                f"{told} {noun} {attribute.predicates[0]}.")


def _roles(rng: Random, count: int) -> list[Role]:
    """Fixed ones, and some made on the spot; never two about the same thing."""
    made = {role.noun: role for role in rng.sample(ROLES, count)}
    for noun in [noun for noun in made if rng.random() < 0.4]:
        del made[noun]
        own = _own_thing(rng)
        made.setdefault(own.noun.partition("/")[0], own)
    return list(made.values())


def _ask(rng: Random, role: Role, unseen: bool) -> str:
    return role.asks[-1] if unseen else rng.choice(ASK_FRAMES).replace("{q}", rng.choice(role.asks[:-1]))


def system_facts(rng: Random, count: int, *, unseen: bool = False) -> tuple[str, list[Item]]:
    """A system line that says `count` things, and a question for each of them."""
    told = [(role, role.value(rng)) for role in _roles(rng, count)]
    key = "system/" + "/".join(sorted(f"{role.noun}={value}" for role, value in told))
    line = rng.choice(LEADS) + " ".join(_filled(rng.choice(role.says), value) for role, value in told)
    return line, [Item(key, _ask(rng, role, unseen), value, _filled(role.answer, value)) for role, value in told]


def system_chat(rng: Random, fillers: Sequence[Item], *, from_held_out: bool = False) -> Passage:
    """A chat under such a line: questions about it among the fillers, all in a style if the line asks for one.

    fillers: questions whose full answer is one sentence, and that ask neither for a name nor for the user.
    """
    line, asks = system_facts(rng, rng.choice((1, 1, 2, 2, 3, 4)))
    while held_out(asks[0].key) != from_held_out:
        line, asks = system_facts(rng, rng.choice((1, 1, 2, 2, 3, 4)))
    key, items = asks[0].key, [*fillers, *asks]
    rng.shuffle(items)
    sound: Style = str
    if rng.random() < 0.4:
        said, sound = style(rng)
        if fillers and rng.random() < 0.4:
            line, items = "", list(fillers)
        line = " ".join(part for part in ((line, said) if rng.random() < 0.5 else (said, line)) if part)
    return Passage(key, forms.chat([(item.ask, sound(item.full)) for item in items], line))
