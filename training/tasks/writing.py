"""Lists of tips, a paragraph for each tip (skeleton of thought), summaries, and very short stories."""

from __future__ import annotations

from random import Random

from ..items import JOINT, Item, Passage, a, upper_first
from ..tips import TIPS, Tip
from ..world import ANIMALS
from .objects import person_line
from .talk import PEOPLE

COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}
LIST_ASKS = ("Give me {n} tips for {t}.", "List {n} tips for {t}.", "What are {n} tips for {t}?",
             "Write {n} tips for {t}.", "{N} tips for {t}", "Name {n} tips for {t}.",
             "Can you give me {n} tips for {t}?")
LIST_LEADS = ("Here are {n} tips for {t}:\n", "{N} tips for {t}:\n", "Here are {n} tips for {t}.\n")
EXPAND_LEADS = ("Now, expand tip {i} into a paragraph:\n", "Expand tip {i}:", "Expand tip {i} into a paragraph:\n",
                "Now, expand tip {i} into a paragraph.\n", "Tip {i}:", "Explain tip {i}:",
                "Write a paragraph about tip {i}:\n")


def _choose(rng: Random) -> tuple[str, list[Tip]]:
    """A topic and some of its tips; now and then with Every Word Capital."""
    topic = rng.choice(list(TIPS))
    tips = rng.sample(TIPS[topic], rng.choice((2, 2, 3, 3, 4, 5)))
    return topic, [tip._replace(title=tip.title.title()) for tip in tips] if rng.random() < 0.2 else tips


def _key(topic: str, tips: list[Tip]) -> str:
    return f"tips/{topic}/{'/'.join(tip.title for tip in tips)}"


def _numbered(tips: list[Tip], end: str = "\n", dot: str = "") -> str:
    return end.join(f"{i}. {tip.title}{dot}" for i, tip in enumerate(tips, 1))


def _words(template: str, topic: str, count: int) -> str:
    return template.format(n=COUNTS[count], N=COUNTS[count].capitalize(), t=topic)


def tip_list(rng: Random) -> Item:
    topic, tips = _choose(rng)
    text = _numbered(tips)
    return Item(_key(topic, tips), _words(rng.choice(LIST_ASKS), topic, len(tips)), text, text)


def tip_list_text(rng: Random) -> Passage:
    """The list in running text, where the program may fill every tip by itself."""
    topic, tips = _choose(rng)
    lines = "\n".join(f"{i}.{JOINT} {tip.title}" for i, tip in enumerate(tips, 1))
    return Passage(_key(topic, tips), _words(rng.choice(LIST_LEADS), topic, len(tips)) + lines + "\n")


def tip_expansion(rng: Random) -> Passage:
    """The list, then one tip or all of them as paragraphs, then sometimes a summary."""
    topic, tips = _choose(rng)
    one_line = rng.random() < 0.5
    lead = _words(rng.choice(LIST_LEADS), topic, len(tips))
    shown = _numbered(tips, " ", ".") if one_line else _numbered(tips)
    parts = [(lead.rstrip("\n") + " " if one_line and rng.random() < 0.6 else lead) + shown]
    numbers = list(range(len(tips)))
    template = rng.choice(EXPAND_LEADS)
    for i in numbers if rng.random() < 0.3 else [rng.choice(numbers)]:
        gap = JOINT if template.endswith("\n") else JOINT + " "
        parts.append(template.format(i=i + 1) + gap + _paragraph(tips[i]))
    if rng.random() < 0.3:
        parts.append(f"In summary,{JOINT} {summary(topic, tips)}")
    return Passage(_key(topic, tips), rng.choice(("\n", "\n\n", "\n\n")).join(parts) + "\n\n")


def _paragraph(tip: Tip) -> str:
    return f"{tip.title}. {tip.detail}"


def summary(topic: str, tips: list[Tip]) -> str:
    words = [tip.title[0].lower() + tip.title[1:] for tip in tips]
    return f"{', '.join(words[:-1])} and {words[-1]} help with {topic}."


def tip_explained(rng: Random) -> Item:
    topic = rng.choice(list(TIPS))
    tip = rng.choice(TIPS[topic])
    ask = rng.choice(("Why is this a good tip for {t}: {p}?", "Explain this tip for {t}: {p}.",
                      "Expand this tip for {t} into a paragraph: {p}.", "Tip for {t}: {p}. Tell me more.")).format(
        t=topic, p=tip.title[0].lower() + tip.title[1:])
    text = _paragraph(tip)
    return Item(f"tip/{ask}", ask, text, text, tip.title, ("Tip", "Paragraph"))


PLACES = ("in a small village", "by the sea", "near a dark forest", "in an old castle", "on a quiet island",
          "under a big tree", "at the edge of a city", "beside a river", "on a green hill", "in a snowy valley")
WISHES = ("wanted to see the world", "looked for a friend", "wished to learn to sing", "searched for a lost key",
          "dreamed of flying", "wanted to find the end of the rainbow", "looked for something to eat",
          "wanted to build a boat", "was afraid of the dark", "wished for rain")
EVENTS = ("One morning {n} found an old map.", "One day a storm came.", "Then {n} met {f}.",
          "One night {n} heard a strange song.", "One day {n} saw a light behind the trees.",
          "Then {n} found a golden key.", "One day {n} and {f} went down the long road.")
TURNS = ("Together with {f}, {n} followed it all day.", "{f} said: \"Do not be afraid.\"",
         "At first {n} was afraid, but {f} helped.", "{n} asked {f} for help, and {f} said yes.",
         "It was not easy, but {n} did not give up.")
ENDINGS = ("In the end {n} was happy.", "In the evening they went home and laughed.",
           "From that day on they were friends.", "And {n} never forgot that day.",
           "And so {n} learned to be brave.", "They are still there today.")


def _story(rng: Random) -> tuple[str, str]:
    animal = rng.choice(ANIMALS).name
    name, friend = rng.sample(PEOPLE, 2)
    hero = a(animal) if rng.random() < 0.6 else rng.choice(("a girl", "a boy", "a king", "a baker", "a robot"))
    lines = [f"Once upon a time there was {hero} named {name} who lived {rng.choice(PLACES)}.",
             f"{name} {rng.choice(WISHES)}.",
             *(rng.choice(part).format(n=name, f=friend) for part in (EVENTS, TURNS, ENDINGS))]
    return hero, " ".join(upper_first(line) for line in lines)


def story(rng: Random) -> Item:
    hero, text = _story(rng)
    ask = rng.choice(("Tell me a story about {h}.", "Write a short story about {h}.", "Tell me a story.",
                      "Write a story with {h} in it.", "Write a very short story.")).format(h=hero)
    return Item(f"story/{text}", ask, text, text, labels=("Story about", "Text"), given=hero)


def story_text(rng: Random) -> Passage:
    text = _story(rng)[1]
    return Passage(f"story/{text}", text.replace(". ", f".{JOINT} "))


def characters(rng: Random) -> Passage:
    lines = [person_line(rng) for _ in range(rng.randint(1, 4))]
    lead = rng.choice(("", "Characters:\n", "Some people:\n", "The characters in this story are:\n"))
    text = "\n".join(line.replace(" who", f"{JOINT} who") for line in lines)
    return Passage(f"people/{lines[-1]}", lead + text)
