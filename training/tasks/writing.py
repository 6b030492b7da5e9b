"""Lists of tips and of points, a paragraph for each (skeleton of thought), summaries, titles, rewriting, stories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple

from ..alternatives import expand
from ..items import JOINT, Item, Passage, a, upper_first
from ..tables import Texts, table
from ..tips import SUBJECTS, TIPS, Tip
from ..world import ANIMALS
from .invented import CITIES, COLORS, JOBS, PEOPLE
from .objects import person_line
from .requests import about, said
from .writing_words import (
    BAD_ASKS,
    BARE_BAD_ASKS,
    BARE_GOOD_ASKS,
    COUNTED,
    COUNTED_ASKS,
    COUNTED_LIST,
    GOOD_ASKS,
    LIST_ASKS,
    REWRITE_ASKS,
    SUMMARY_ASKS,
    TITLE_ASKS,
    UNCOUNTED,
    UNCOUNTED_ASKS,
    UNCOUNTED_LIST,
    UNSEEN_BAD_ASKS,
    UNSEEN_GOOD_ASKS,
    UNSEEN_LIST_ASKS,
    UNSEEN_REWRITE_ASKS,
    UNSEEN_SUMMARY_ASKS,
)

DATA = table("writing")

COUNTS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
TOPICS = tuple(TIPS)
DEFAULT = 3
"""How many there are where no count is given."""
BASES = {"staying": "stay", "learning": "learn", "saving": "save", "writing": "write", "growing": "grow",
         "sleeping": "sleep", "giving": "give", "studying": "study", "packing": "pack", "keeping": "keep",
         "cooking": "cook", "working": "work", "protecting": "protect", "making": "make", "baking": "bake",
         "taking": "take", "riding": "ride", "running": "run", "swimming": "swim", "planning": "plan",
         "painting": "paint", "finding": "find", "leading": "lead", "reading": "read", "playing": "play",
         "living": "live", "cleaning": "clean", "traveling": "travel", "camping": "camp", "raising": "raise",
         "shopping": "shop"}
LIST_LEADS = ("Here are {n} tips for {t}:\n", "{N} tips for {t}:\n", "Here are {n} tips for {t}.\n")
EXPAND_LEADS = ("Now, expand tip {i} into a paragraph:\n", "Expand tip {i}:", "Expand tip {i} into a paragraph:\n",
                "Now, expand tip {i} into a paragraph.\n", "Tip {i}:", "Explain tip {i}:",
                "Write a paragraph about tip {i}:\n", "Point {i} in more detail:", "Tell me more about tip {i}.\n",
                "Now write the paragraph for point {i}.\n", "Please expand point {i} into a paragraph.\n")


def choose(rng: Random) -> tuple[str, list[Tip]]:
    """A topic and some of its tips; now and then with Every Word Capital."""
    topic = rng.choice(TOPICS)
    tips = rng.sample(TIPS[topic], rng.choice((2, 3, 3, 4, 5, 6)))
    return topic, [tip._replace(title=tip.title.title()) for tip in tips] if rng.random() < 0.2 else tips


def list_key(topic: str, tips: Sequence[Tip]) -> str:
    return f"tips/{topic}/{'/'.join(tip.title for tip in tips)}".lower()


def _numbered(tips: Sequence[Tip], end: str = "\n", dot: str = "") -> str:
    return end.join(f"{i}. {tip.title}{dot}" for i, tip in enumerate(tips, 1))


def _words(template: str, topic: str, count: int) -> str:
    return template.format(n=COUNTS[count], N=COUNTS[count].capitalize(), t=topic)


def base(gerund: str) -> str:
    """`baking bread` to `bake bread`."""
    verb, blank, rest = gerund.partition(" ")
    return BASES[verb] + blank + rest


def number(rng: Random, count: int) -> str:
    return COUNTS[count] if rng.random() < 0.6 else str(count)


def list_ask(rng: Random, topic: str, count: int) -> str:
    """A request for tips; a count of three may be left out."""
    topic = topic.replace("your ", "a ")
    slots = {"t": topic, "b": base(topic)}
    if count == DEFAULT and rng.random() < 0.5:
        words = {"w": expand(rng, UNCOUNTED), "l": expand(rng, UNCOUNTED_LIST)}
        return said(rng, rng.choice(rng.choice((LIST_ASKS, UNCOUNTED_ASKS))), **slots, **words)
    n = number(rng, count)
    words = {"w": expand(rng, COUNTED).format(n=n), "l": expand(rng, COUNTED_LIST).format(n=n), "n": n}
    return said(rng, rng.choice(LIST_ASKS if rng.random() < 0.75 else COUNTED_ASKS), **slots, **words)


def _list_item(topic: str, tips: Sequence[Tip], ask: str) -> Item:
    text = _numbered(tips)
    return Item(list_key(topic, tips), ask, text, text)


def tip_list(rng: Random) -> Item:
    topic, tips = choose(rng)
    return _list_item(topic, tips, list_ask(rng, topic, len(tips)))


def tip_list_unseen(rng: Random) -> Item:
    topic, tips = choose(rng)
    return _list_item(topic, tips, said(rng, rng.choice(UNSEEN_LIST_ASKS), t=topic, n=number(rng, len(tips))))


def tip_list_text(rng: Random) -> Passage:
    """The list in running text, where the program may fill every tip by itself."""
    topic, tips = choose(rng)
    lines = "\n".join(f"{i}.{JOINT} {tip.title}" for i, tip in enumerate(tips, 1))
    return Passage(list_key(topic, tips), _words(rng.choice(LIST_LEADS), topic, len(tips)) + lines + "\n")


def shown_list(rng: Random, topic: str, tips: Sequence[Tip]) -> str:
    """A list with a line before it, in one line or one line for each tip."""
    one_line = rng.random() < 0.5
    lead = _words(rng.choice(LIST_LEADS), topic, len(tips))
    shown = _numbered(tips, " ", ".") if one_line else _numbered(tips)
    return (lead.rstrip("\n") + " " if one_line and rng.random() < 0.6 else lead) + shown


def tip_expansion(rng: Random) -> Passage:
    """The list, then one tip or all of them as paragraphs, then sometimes a summary."""
    topic, tips = choose(rng)
    parts = [shown_list(rng, topic, tips)]
    numbers = list(range(len(tips)))
    template = rng.choice(EXPAND_LEADS)
    for i in numbers if rng.random() < 0.3 else [rng.choice(numbers)]:
        gap = JOINT if template.endswith("\n") else JOINT + " "
        parts.append(template.format(i=i + 1) + gap + paragraph(tips[i]))
    if rng.random() < 0.3:
        parts.append(f"In summary,{JOINT} {summary(topic, tips)}")
    return Passage(list_key(topic, tips), rng.choice(("\n", "\n\n", "\n\n")).join(parts) + "\n\n")


def paragraph(tip: Tip) -> str:
    return f"{tip.title}. {tip.detail}"


def summary(topic: str, tips: Sequence[Tip]) -> str:
    words = [tip.title[0].lower() + tip.title[1:] for tip in tips]
    return f"{', '.join(words[:-1])} and {words[-1]} help with {topic}."


def tip_explained(rng: Random) -> Item:
    topic = rng.choice(TOPICS)
    tip = rng.choice(TIPS[topic])
    ask = rng.choice(("Why is this a good tip for {t}: {p}?", "Explain this tip for {t}: {p}.",
                      "Expand this tip for {t} into a paragraph: {p}.", "Tip for {t}: {p}. Tell me more.")).format(
        t=topic, p=tip.title[0].lower() + tip.title[1:])
    text = paragraph(tip)
    return Item(f"tip/{ask}", ask, text, text, tip.title, ("Tip", "Paragraph"))


def tip_paragraphs(rng: Random) -> Passage:
    """Topic, tip and paragraph under labels, as a program writes that expands every tip on its own."""
    topic = rng.choice(TOPICS)
    tips = rng.sample(TIPS[topic], rng.choice((1, 1, 2)))
    asked = rng.choice(("", "Please expand the tip for a topic into a paragraph.\n\n", "Write a paragraph.\n\n"))
    label = rng.choice(("Tip", "Point"))
    parts = [f"Topic: {topic}\n{label}: {tip.title}\nParagraph:{JOINT} {paragraph(tip)}" for tip in tips]
    return Passage(f"paragraphs/{topic}/{'/'.join(tip.title for tip in tips)}", asked + "\n\n".join(parts) + "\n\n")


def point_case(rng: Random, ask_for: Callable[[Random, bool, int, dict[str, str]], str]) -> Item:
    """Two or three advantages or disadvantages; `ask_for` words the request for a side and a count."""
    subject, against = rng.choice(SUBJECTS), rng.random() < 0.5
    chosen = rng.sample(subject.bad if against else subject.good, rng.choice((2, 3, 3)))
    names = {"s": subject.name, "y": rng.choice((subject.name, subject.things))}
    text = "\n".join(f"{i}. {point.title}" for i, point in enumerate(chosen, 1))
    ask = ask_for(rng, against, len(chosen), names)
    return Item(f"points/{subject.name}/{'/'.join(point.title for point in chosen)}", ask, text, text)


def _points_ask(rng: Random, against: bool, count: int, names: dict[str, str]) -> str:
    asks = BAD_ASKS if against else GOOD_ASKS
    if count == DEFAULT and rng.random() < 0.4:
        if rng.random() < 0.5:
            return said(rng, rng.choice(BARE_BAD_ASKS if against else BARE_GOOD_ASKS), **names)
        return said(rng, rng.choice(asks), n=rng.choice(("some", "a few")), **names)
    return said(rng, rng.choice(asks), n=number(rng, count), **names)


def _points_ask_unseen(rng: Random, against: bool, count: int, names: dict[str, str]) -> str:
    return said(rng, rng.choice(UNSEEN_BAD_ASKS if against else UNSEEN_GOOD_ASKS), n=number(rng, count), **names)


def points(rng: Random) -> Item:
    return point_case(rng, _points_ask)


def points_unseen(rng: Random) -> Item:
    return point_case(rng, _points_ask_unseen)


def points_text(rng: Random) -> Passage:
    """Points for or against a subject, then some of them with their reason and an example."""
    subject, against = rng.choice(SUBJECTS), rng.random() < 0.5
    chosen = rng.sample(subject.bad if against else subject.good, rng.choice((2, 3)))
    side = "Disadvantages" if against else "Advantages"
    lines = "\n".join(f"{i}.{JOINT} {point.title}" for i, point in enumerate(chosen, 1))
    parts = [f"{side} of {rng.choice((subject.name, subject.things))}:\n{lines}"]
    people = rng.sample(PEOPLE, len(chosen))
    lead = rng.choice(("Point {i}:", "Expand point {i}:", "Explain point {i} with an example:"))
    for i in sorted(rng.sample(range(len(chosen)), rng.choice((1, len(chosen))))):
        point = chosen[i]
        parts.append(f"{lead.format(i=i + 1)}{JOINT} {point.title}. {point.reason} {point.example.format(n=people[i])}")
    return Passage(f"points/{subject.name}/{'/'.join(p.title for p in chosen)}", "\n\n".join(parts) + "\n")


NEWS_JOBS = tuple(job for job in JOBS if a(job).startswith("a "))


class News(NamedTuple):
    """What happened, its title, and sentences that may follow: {n} a person, {c} a city, {j} a job, {k} a color."""

    first: str
    title: str
    more: tuple[str, ...]


NEWS = DATA.get("news", tuple[News, ...])

def _paragraph_of_news(rng: Random, news: News, more: int) -> tuple[str, str, str]:
    """A paragraph with `more` sentences after the first, its first sentence, and its title."""
    words = {"n": rng.choice(PEOPLE), "c": rng.choice(CITIES), "j": rng.choice(NEWS_JOBS), "k": rng.choice(COLORS),
             "d": COUNTS[rng.randint(2, 6)]}
    first = news.first.format(**words)
    rest = [line.format(**words) for line in rng.sample(news.more, more)]
    return " ".join((first, *rest)), first, news.title.format(**words)


def text_summary(rng: Random, asks: Sequence[str] = SUMMARY_ASKS) -> Item:
    """A text of two to four paragraphs; the summary is the first sentence of each."""
    made = [_paragraph_of_news(rng, news, rng.choice((1, 2, 2))) for news in rng.sample(NEWS, rng.choice((2, 2, 3, 4)))]
    text, answer = "\n\n".join(part for part, _, _ in made), " ".join(first for _, first, _ in made)
    ask = about(rng, rng.choice(asks), text, "Text")
    return Item(f"news/{text}", ask, answer, answer, text, ("Text", "Summary"))


def text_summary_unseen(rng: Random) -> Item:
    return text_summary(rng, UNSEEN_SUMMARY_ASKS)


def text_title(rng: Random) -> Item:
    """A title for one paragraph; it is longer than those of the summaries, so that no text is in both."""
    text, _, title = _paragraph_of_news(rng, rng.choice(NEWS), 3)
    ask = about(rng, rng.choice(TITLE_ASKS), text, "Text")
    return Item(f"news/{text}", ask, title, title, text, ("Text", "Title"))


VERBS = DATA.get("verbs", tuple[Texts, ...])


def rewriting(rng: Random, asks: Mapping[str, Sequence[str]] = REWRITE_ASKS) -> Item:
    """A sentence in another tense or form."""
    base, third, past, rest = rng.choice(VERBS)
    who, city = rng.choice((rng.choice(PEOPLE), f"the {rng.choice(JOBS)}")), rng.choice(CITIES)
    rest += rng.choice(("", f" in {city}", f" with {rng.choice(PEOPLE)}", f" near {city}"))
    kind = rng.choice(tuple(asks))
    sentence = f"{base} {rest}." if kind == "polite" else f"{who} {third} {rest}."
    answer = {"past": f"{who} {past} {rest}.", "future": f"{who} will {base} {rest}.",
              "question": f"does {who} {base} {rest}?", "negative": f"{who} does not {base} {rest}.",
              "plural": f"they {base} {rest}.", "polite": f"could you please {base} {rest}?"}[kind]
    sentence, answer = upper_first(sentence), upper_first(answer)
    return Item(f"rewrite/{sentence}", about(rng, rng.choice(asks[kind]), sentence, "Sentence"), answer, answer)


def rewriting_unseen(rng: Random) -> Item:
    return rewriting(rng, UNSEEN_REWRITE_ASKS)


PLACES = ("in a small village", "by the sea", "near a dark forest", "in an old castle", "on a quiet island",
          "under a big tree", "at the edge of a city", "beside a river", "on a green hill", "in a snowy valley",
          "in a house with a red door", "behind a windmill", "next to a lighthouse", "at the foot of a mountain")
GIRLS = ("Mira", "Anna", "Clara", "Ella", "Grace", "Maya", "Rosa", "Alice", "Nina")
BOYS = ("Tom", "Ben", "David", "Felix", "Henry", "Leo", "Paul", "Victor", "Oscar")
HEROES = (("a girl", GIRLS), ("a queen", GIRLS), ("a boy", BOYS), ("a king", BOYS), ("a robot", PEOPLE),
          ("a baker", PEOPLE))
PLOTS = DATA.get("plots", tuple[Texts, ...])
TURNS = ("{f} said: \"Do not be afraid.\"", "At first {n} was shy, but {f} helped.", "It was not easy, but it worked.",
         "{n} laughed for the first time in weeks.", "They hardly believed it.", "{n} thanked {f} with a song.")
ENDINGS = ("In the end {n} was happy.", "In the evening they went home and laughed.",
           "From that day on they were friends.", "And {n} never forgot that day.",
           "And so {n} learned to be brave.", "They are still there today.", "People still tell this story.")


def _story(rng: Random) -> tuple[str, str]:
    """Who it is about, and the story; what happens answers the wish."""
    hero, names = rng.choice(HEROES) if rng.random() < 0.4 else (a(rng.choice(ANIMALS).name), PEOPLE)
    name, friend = rng.choice(names), rng.choice(PEOPLE)
    while friend == name:
        friend = rng.choice(PEOPLE)
    wish, event, answer = rng.choice(PLOTS)
    lines = [f"Once upon a time there was {hero} named {name} who lived {rng.choice(PLACES)}.",
             f"{name} {wish}.", event, answer, rng.choice(TURNS), rng.choice(ENDINGS)]
    return hero, " ".join(upper_first(line.format(n=name, f=friend)) for line in lines)


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
