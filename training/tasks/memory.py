"""Remembering what was said: things told in a conversation, and things that the system line says.

A conversation tells some things and asks: for what was told, for the newest of two values, for a friend's job and not
one's own, for what was never told. Its key is everything it tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import NamedTuple

from ..items import Item, a, held_out, upper_first
from .invented import KNOWN_PEOPLE
from .told_things import group, made_topic
from .told_topics import TOPICS, Topic

NOT_TOLD = "You have not told me."
NOTED = ("Nice to know.", "Thank you for telling me.", "I will remember that.")
OPENINGS = (*[""] * 14, "Hello! ", "Hi! ", "Please remember this. ", "One thing about me. ", "Listen. ",
            "Just so you know: ", "Remember: ", "Note this: ", "You should know this. ", "Hey, ", "Please note: ",
            "For later: ", "So, ", "A fact for you: ", "Keep this in mind: ", "Guess what. ", "Something else: ",
            "Let me tell you something. ", "Please write this down: ", "Good to know: ", "By the way, ",
            "Don't forget: ", "OK, ", "Before I forget: ")
TAILS = (*[""] * 14, " Please remember it.", " Remember that.", " Keep it in mind.", " Don't forget it.", " OK?",
         " I will ask you later.", " That is important.", " Got it?", " Please note it.", " Just saying.")
NEWS = ("Actually, {s}", "Actually, {s}", "Wait, {s}", "Correction: {s}", "I have news: {s}", "By the way, {s}", "{s}",
        "No, sorry, {s}")
ASK_FRAMES = (*["{q}"] * 12, "Do you remember? {q}", "Now tell me: {q}", "Do you still know? {q}", "Quick check. {q}",
              "One question about me. {q}", "Think back. {q}", "Let me test you. {q}", "{q} I told you earlier.",
              "{q} You should know.", "Tell me again: {q}", "{q} Do you remember?", "Hey, one question: {q}",
              "Now a question: {q}", "Please help me: {q}", "{q} I said it before.", "I have a question. {q}",
              "{q} Please.", "So: {q}", "Back to me. {q}", "Remind me: {q}", "{q} I have told you.", "Look back. {q}",
              "Please answer: {q}", "Can you help? {q}", "{q} Tell me.", "From what I said: {q}", "OK. {q}")
UNSEEN_ASK_FRAMES = ("I hope you were listening. {q}", "{q} It slipped my mind.", "{q}")
ABOUT_ASKS = ("What did I tell you about {n}?", "What do you know about {n}?", "What did I say about {n}?",
              "Tell me what I said about {n}.")
ALL_ASKS = ("What do you know about me?", "What did I tell you about me?", "Tell me all that you know about me.",
            "What have I told you?")
LOWERED = ("My ", "The ", "Our ", "These ", "Now ", "In ", "At ", "When ", "If ", "Call ", "Please ", "People ", "You ")
"""A sentence that begins so goes on in small letters after a comma."""
OWNERLESS = ("number to remember", "code word", "meeting")
CLASHING = frozenset(("pet", "dog's name"))
"""Of these one conversation has one: who tells the name of a dog has told of a pet."""
FRIENDLY = tuple(topic for topic in TOPICS if topic.of_friend)
CHANGING = tuple(topic for topic in TOPICS if topic.changes)


class Turn(NamedTuple):
    ask: str
    short: str
    full: str


def _filled(template: str, value: str, friend: str = "") -> str:
    return upper_first(template.replace("{v}", value).replace("{a}", a(value)).replace("{f}", friend))


def _mild(sentence: str) -> str:
    """The sentence as it goes on after a comma."""
    return sentence[0].lower() + sentence[1:] if sentence.startswith(LOWERED) else sentence


class Talk:
    """What has been told so far; each method adds to it or asks for it."""

    def __init__(self, rng: Random, *, unseen: bool = False) -> None:
        self.rng, self.unseen = rng, unseen
        self.mine: dict[str, tuple[Topic, str]] = {}
        self.friends: dict[tuple[str, str], tuple[Topic, str]] = {}
        self.log: list[str] = []

    @property
    def key(self) -> str:
        return f"memory/{'/'.join(sorted(self.log))}"

    def _note(self, topic: Topic, value: str, friend: str = "") -> None:
        self.log.append(f"{friend}:{topic.noun}={value}")
        if friend:
            self.friends[friend, topic.noun] = topic, value
        else:
            self.mine[topic.noun] = topic, value

    def _reply(self, topic: Topic, value: str, answer: str) -> str:
        if topic.noun == "name":
            return f"Nice to meet you, {value}!"
        way = self.rng.random()
        return self.rng.choice(NOTED) if way < 0.8 else f"{answer} I will remember that."

    def tell(self, topic: Topic) -> Turn:
        value = topic.value(self.rng)
        self._note(topic, value)
        opening, said = self.rng.choice(OPENINGS), _filled(self.rng.choice(topic.tells), value)
        said = opening + (_mild(said) if opening.endswith(", ") else said) + self.rng.choice(TAILS)
        reply = self._reply(topic, value, _filled(topic.answer, value))
        return Turn(said, reply, reply)

    def tell_two(self, first: Topic, second: Topic) -> Turn:
        """Two things in one turn."""
        one, two = self.tell(first), self.tell(second)
        said = f"{one.ask} {_filled(self.rng.choice(second.tells), self.mine[second.noun][1])}"
        reply = one.full if first.noun == "name" else two.full if second.noun == "name" else self.rng.choice(NOTED)
        return Turn(said, reply, reply)

    def change(self, topic: Topic) -> Turn:
        """A newer value of what was told."""
        value, old = topic.value(self.rng), self.mine[topic.noun][1]
        while value == old:
            value = topic.value(self.rng)
        self._note(topic, value)
        said = _filled(self.rng.choice(topic.changes), value)
        frame = self.rng.choice(NEWS)
        said = said if frame == "{s}" else frame.replace("{s}", _mild(said))
        reply = self.rng.choice(("Thank you for telling me.", "I will remember that."))
        return Turn(said, reply, reply)

    def tell_of_friend(self, topic: Topic) -> Turn:
        assert topic.of_friend
        friend, value = self.rng.choice(KNOWN_PEOPLE)[0], topic.value(self.rng)
        self._note(topic, value, friend)
        reply = self.rng.choice(NOTED)
        return Turn(_filled(topic.of_friend[0], value, friend), reply, reply)

    def ask_near(self, topic: Topic) -> Turn:
        """For what is easily taken for the topic and was not told; for the topic if there is no such thing."""
        near = topic.near(self.rng) if topic.near else None
        return self.ask(near if near and near.noun not in self.mine else topic)

    def ask(self, topic: Topic) -> Turn:
        """What the user told of this; or did not."""
        rng = self.rng
        if self.unseen:
            ask = rng.choice(UNSEEN_ASK_FRAMES).replace("{q}", topic.asks[-1])
        elif "/" not in topic.noun and rng.random() < 0.12:
            ask = rng.choice(ABOUT_ASKS).replace("{n}", f"{'the' if topic.noun in OWNERLESS else 'my'} {topic.noun}")
        else:
            frame = "{q}" if topic.noun.startswith(("event/", "gap/")) else rng.choice(ASK_FRAMES)
            ask = frame.replace("{q}", rng.choice(topic.asks[:-1]))
        if topic.noun not in self.mine:
            return Turn(ask, NOT_TOLD, NOT_TOLD)
        value = self.mine[topic.noun][1]
        return Turn(ask, value, _filled(topic.answer, value))

    def ask_of_friend(self, friend: str, topic: Topic) -> Turn:
        assert topic.of_friend
        ask = self.rng.choice(ASK_FRAMES[:19]).replace("{q}", topic.of_friend[1].replace("{f}", friend))
        if (friend, topic.noun) not in self.friends:
            return Turn(ask, NOT_TOLD, NOT_TOLD)
        value = self.friends[friend, topic.noun][1]
        return Turn(ask, value, _filled(topic.of_friend[2], value, friend))

    def ask_all(self) -> Turn:
        """Everything about the user, in the order in which it was told first."""
        values = ", ".join(value for _, value in self.mine.values())
        full = " ".join(_filled(topic.answer, value) for topic, value in self.mine.values())
        return Turn(self.rng.choice(ALL_ASKS), values or NOT_TOLD, full or NOT_TOLD)

    def items(self, turns: Sequence[Turn]) -> list[Item]:
        return [Item(self.key, *turn) for turn in turns]


def _topics(rng: Random, count: int) -> list[Topic]:
    """Different topics that do not clash, about half of them made on the spot."""
    made: dict[str, Topic] = {}
    while len(made) < count:
        topic = made_topic(rng) if rng.random() < 0.6 else rng.choice(TOPICS)
        made.setdefault(group(topic) or "/".join(topic.noun.split("/")[:2]), topic)
    return list(made.values())


def _any_ask(talk: Talk, asked_for: Sequence[Topic]) -> Turn:
    """Mostly for what was told; one time in six for what was not."""
    rng = talk.rng
    way = rng.random()
    if talk.friends and way < 0.3:
        friend, noun = rng.choice(list(talk.friends))
        topic = talk.friends[friend, noun][0]
        if rng.random() < 0.3:
            return talk.ask(topic) if topic.noun not in CLASHING else talk.ask(TOPICS[0])
        return talk.ask_of_friend(friend, topic if rng.random() < 0.8 else rng.choice(FRIENDLY))
    if way > 0.95:
        return talk.ask_all()
    told = [topic for topic, _ in talk.mine.values()]
    if way > 0.88 and told:
        return talk.ask_near(rng.choice(told))
    if way > 0.8 or not told:
        groups = {group(topic) for topic in told} - {""}
        return talk.ask(rng.choice([topic for topic in asked_for if group(topic) not in groups]))
    return talk.ask(rng.choice(told))


def _conversation(rng: Random, fillers: Sequence[Item]) -> tuple[str, list[Item]]:
    talk = Talk(rng)
    topics = _topics(rng, rng.choice((1, 1, 2, 2, 3, 4, 5)))
    absent = [topic for topic in TOPICS if topic.noun not in CLASHING]
    steps: list[Callable[[], Turn]] = []
    if len(topics) > 2 and rng.random() < 0.3:
        first, second, *topics = topics
        steps.append(partial(talk.tell_two, first, second))
    steps += [partial(talk.tell, topic) for topic in topics]
    if rng.random() < 0.3:
        steps.insert(rng.randint(0, len(steps)), partial(talk.tell_of_friend, rng.choice(FRIENDLY)))
    steps += [partial(talk.change, topic) for topic in topics if topic.changes and rng.random() < 0.3]
    plan: list[Callable[[], Turn] | Item] = [*steps]
    ask = partial(_any_ask, talk, absent)
    extras: list[Callable[[], Turn] | Item] = [*fillers, *[ask] * rng.choice((0, 1, 1, 2, 3))]
    for extra in extras:
        plan.insert(rng.randint(0, len(plan)), extra)
    plan.append(ask)
    done = [step if isinstance(step, Item) else step() for step in plan]
    return talk.key, [turn if isinstance(turn, Item) else Item(talk.key, *turn) for turn in done]


def conversation(rng: Random, fillers: Sequence[Item], *, from_held_out: bool = False) -> list[Item]:
    """Turns that tell and ask, in order, with the fillers anywhere between; the last one asks."""
    key, items = _conversation(rng, fillers)
    while held_out(key) != from_held_out:
        key, items = _conversation(rng, fillers)
    return items


def remembered(rng: Random, *, unseen: bool = False) -> tuple[Item, Item]:
    """Something the user tells, and a question about it that may come any number of turns later."""
    talk, (topic,) = Talk(rng, unseen=unseen), _topics(rng, 1)
    tell, ask = talk.items([talk.tell(topic), talk.ask(topic)])
    return tell, ask


def changed(rng: Random, *, unseen: bool = False) -> tuple[Item, Item, Item]:
    """Something told, something newer told, and a question; what is newer counts."""
    talk, topic = Talk(rng, unseen=unseen), made_topic(rng)
    if not topic.changes:
        topic = rng.choice(CHANGING)
    tell, change, ask = talk.items([talk.tell(topic), talk.change(topic), talk.ask(topic)])
    return tell, change, ask


def among_others(rng: Random, *, unseen: bool = False) -> tuple[Item, ...]:
    """Three things told, and a question about one of them."""
    talk, topics = Talk(rng, unseen=unseen), _topics(rng, 3)
    return tuple(talk.items([*map(talk.tell, topics), talk.ask(rng.choice(topics))]))


def not_told(rng: Random, *, unseen: bool = False) -> tuple[Item, ...]:
    """Two things told, and a question about a third one."""
    talk, (first, second, third) = Talk(rng, unseen=unseen), _topics(rng, 3)
    return tuple(talk.items([talk.tell(first), talk.tell(second), talk.ask(third)]))


def of_friend(rng: Random, *, unseen: bool = False) -> tuple[Item, Item, Item]:
    """The same thing told of oneself and of a friend, and a question about one of the two."""
    talk, topic = Talk(rng, unseen=unseen), rng.choice(FRIENDLY)
    turns = [talk.tell(topic), talk.tell_of_friend(topic)]
    rng.shuffle(turns)
    friend = next(iter(talk.friends))[0]
    ask = talk.ask(topic) if unseen or rng.random() < 0.5 else talk.ask_of_friend(friend, topic)
    first, second, third = talk.items([*turns, ask])
    return first, second, third
