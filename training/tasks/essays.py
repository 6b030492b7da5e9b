"""Short essays of controlled quality, judgements of them on named dimensions, and the merge to a summary and a grade.

What a judgement says follows from what was put into the essay: misspelt words, a sentence that comes twice, sentences
that belong elsewhere, examples, an opening and an ending, rude or warm words. Where the count leaves room, two scores
are equally right, and training sees both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from ..forms import chat
from ..items import JOINT, Item, Passage, a, held_out, upper_first
from ..tips import SUBJECTS, TIPS, Point
from .essay_words import ABOUT_ASKS, JUDGE_ASKS, MERGE_ASKS, UNSEEN_MERGE_ASKS, VALID_ASKS
from .invented import CITIES, COLORS, HOBBIES, PEOPLE, PETS
from .requests import about, said

DIMENSIONS = {"clarity": ("clarity", "clarity", "spelling", "correctness"), "variety": ("variety", "originality"),
              "focus": ("focus", "focus", "relevance"), "evidence": ("evidence", "evidence", "support"),
              "structure": ("structure", "organization"), "tone": ("tone", "politeness")}
SCORES = {"clarity": ((5,), (4,), (3,), (1, 2)), "variety": ((5,), (3,), (1, 2)),
          "focus": ((5,), (3, 4), (2,), (1,)), "evidence": ((1, 2), (3,), (4,), (5,)),
          "structure": ((5,), (3,), (1, 2)), "tone": ((3, 4), (5,), (2,), (1,))}
"""By the count of what was seen; the two numbers of a pair are equally right."""
WORDS = ("", "poor", "weak", "fair", "good", "excellent")
NUMBERS = ("no", "one", "two", "three", "four")
GRADES = "DCBA"

OPENINGS = (("I believe that {s} is a good thing.", "In my opinion {s} is a great idea.", "I am in favor of {s}.",
             "There are many reasons for {s}.", "{S} makes life better.", "More people should think about {s}.",
             "I want to speak for {s}.", "{S} has clear advantages."),
            ("I believe that {s} is a bad thing.", "In my opinion {s} is a poor idea.", "I am against {s}.",
             "There are many reasons against {s}.", "{S} makes life harder.", "People praise {s} too much.",
             "I want to speak against {s}.", "{S} has clear disadvantages."))
ENDINGS = (("For these reasons I would always choose {s}.", "In short, {s} is worth it.",
            "All in all, {s} does more good than harm.", "That is why I recommend {s}.",
            "In conclusion, I can only say yes to {s}."),
           ("For these reasons I would never choose {s}.", "In short, {s} is not worth it.",
            "All in all, {s} does more harm than good.", "That is why I warn against {s}.",
            "In conclusion, I can only say no to {s}."))
STRAYS = ("My {p} is {c}.", "It is raining in {t} today.", "The walls of my room are {c}.", "My hobby is {h}.",
          "Yesterday I bought {e} hat.", "My grandmother was born in {t}.", "I saw {e} {p} this morning.",
          "My aunt in {t} likes {h}.", "Somebody painted our door {c}.", "My favorite color is {c}.",
          "I once lost {e} umbrella in {t}.", "Next week I will try {h}.", "Our {p} sleeps on {e} blanket.")
RUDE = ("Only a fool would disagree.", "People who think otherwise are stupid.", "Shut up if you do not like it.",
        "You are too lazy to understand this.", "Whoever says no is an idiot.", "I do not care what you think.",
        "Your opinion is worthless.", "This should be clear even to you.", "Everyone else is a liar.",
        "Stop asking silly questions.")
WARM = ("I respect everyone who sees it differently.", "Thank you for reading my thoughts.",
        "I am glad that you take the time to read this.", "Please tell me what you think.",
        "Dear reader, you are welcome to disagree.", "I would love to hear your view.",
        "Both sides deserve a friendly ear.", "I thank my teachers for their kind help.")
LINKS = ("", "", "", "Also, ", "Besides, ", "Moreover, ")


@dataclass(frozen=True, slots=True)
class Essay:
    """An essay and what was put into it: misspelt words and the right ones, sentences that come twice, and so on."""

    subject: str
    text: str
    wrong: tuple[str, ...]
    meant: tuple[str, ...]
    twice: tuple[str, ...]
    strays: tuple[str, ...]
    people: tuple[str, ...]
    opened: bool
    ended: bool
    rude: tuple[str, ...]
    warm: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"essay/{self.text}"


@cache
def known_words() -> frozenset[str]:
    """Words that a misspelling must not turn into."""
    points = (f"{p.reason} {p.example}" for s in SUBJECTS for p in (*s.good, *s.bad))
    tips = (tip.detail for tips in TIPS.values() for tip in tips)
    text = " ".join((*points, *tips, "travelling travelled traveller travellers dessert diary dairy later latter"))
    return frozenset(text.lower().replace(".", "").replace(",", "").split())


@cache
def _misspellings(word: str) -> tuple[str, ...]:
    """The word with two inner letters exchanged or one doubled; nothing for names and short words."""
    if len(word) < 6 or not word.isalpha() or not word.islower():
        return ()
    inner = range(1, len(word) - 2)
    swapped = (word[:i] + word[i + 1] + word[i] + word[i + 2:] for i in inner if word[i] != word[i + 1])
    doubled = (word[:i] + word[i] + word[i:] for i in inner if word[i] not in (word[i - 1], word[i + 1]))
    return tuple(made for made in (*swapped, *doubled) if made not in known_words())


def _misspell(rng: Random, sentence: str) -> tuple[str, str, str]:
    """The sentence with one wrong word, that word, the right one; both are empty where no word is long enough."""
    words = sentence[:-1].split(" ")
    at = [i for i, word in enumerate(words) if _misspellings(word)]
    if not at:
        return sentence, "", ""
    i = rng.choice(at)
    right, words[i] = words[i], rng.choice(_misspellings(words[i]))
    return " ".join(words) + ".", words[i], right


def _body(rng: Random, points: Sequence[Point], people: Sequence[str]) -> list[str]:
    """Reasons, the first of them with examples about `people`."""
    lines = []
    for i, point in enumerate(points):
        link = rng.choice(LINKS) if i else rng.choice(("", "", "First, "))
        lines.append(link + (point.reason[0].lower() + point.reason[1:] if link else point.reason))
        if i < len(people):
            lines.append(rng.choice(("", "", "For example, ")) + point.example.format(n=people[i]))
    return lines


def _stray(rng: Random) -> str:
    color = rng.choice(COLORS)
    return rng.choice(STRAYS).format(p=rng.choice(PETS), c=color, e=a(color), t=rng.choice(CITIES),
                                     h=rng.choice(HOBBIES))


def _flaws(rng: Random, dimension: str) -> frozenset[str]:
    """Which dimensions are touched: the one that is asked about half of the time, seldom many."""
    others = rng.sample(tuple(DIMENSIONS), rng.choice((0, 1, 1, 2)))
    return frozenset(others) | (frozenset((dimension,)) if rng.random() < 0.6 else frozenset())


def essay(rng: Random, dimension: str = "") -> Essay:
    """A new essay; with a dimension, one that more often shows something there."""
    subject, against = rng.choice(SUBJECTS), rng.random() < 0.5
    flaws = _flaws(rng, dimension)
    opened, ended = rng.choice(((True, False), (False, True), (False, False))) if "structure" in flaws else (True, True)
    points = rng.sample(subject.bad if against else subject.good, rng.choice((2, 2, 3)) if opened or ended else 3)
    examples = rng.randint(0, len(points)) if "evidence" in flaws else min(len(points), 2)
    people = tuple(rng.sample(PEOPLE, examples))
    names = {"s": subject.name, "S": upper_first(subject.name)}
    lines = _body(rng, points, people)
    if opened:
        lines.insert(0, rng.choice(OPENINGS[against]).format(**names))
    if ended:
        lines.append(rng.choice(ENDINGS[against]).format(**names))
    bounds = int(opened), int(ended)
    twice = _repeat(rng, lines, bounds, rng.choice((1, 1, 1, 2)) if "variety" in flaws else 0)
    lines, wrong, meant = _with_mistakes(rng, lines, rng.randint(1, 3) if "clarity" in flaws else 0)
    strays = tuple(dict.fromkeys(_stray(rng) for _ in range(rng.choice((1, 1, 2, 3)) if "focus" in flaws else 0)))
    polite = rng.random() < 0.5
    rude = tuple(rng.sample(RUDE, rng.choice((1, 1, 2)))) if "tone" in flaws and not polite else ()
    warm = tuple(rng.sample(WARM, 1)) if "tone" in flaws and polite else ()
    for line in (*strays, *rude, *warm):
        lines.insert(rng.randint(bounds[0], len(lines) - bounds[1]), line)
    return Essay(subject.name, " ".join(lines), wrong, meant, _in_order(lines, twice), _in_order(lines, strays), people,
                 opened, ended, _in_order(lines, rude), warm)


def _in_order(lines: Sequence[str], some: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(some, key=lines.index))


def _with_mistakes(rng: Random, lines: list[str], count: int) -> tuple[list[str], tuple[str, ...], tuple[str, ...]]:
    """At most one wrong word in each sentence, none in one that comes twice."""
    single = [i for i, line in enumerate(lines) if lines.count(line) == 1]
    chosen = set(rng.sample(single, min(count, len(single))))
    made = [_misspell(rng, line) if i in chosen else (line, "", "") for i, line in enumerate(lines)]
    wrong, meant = (tuple(words[k] for words in made if words[k]) for k in (1, 2))
    return [line for line, _, _ in made], wrong, meant


def _repeat(rng: Random, lines: list[str], bounds: tuple[int, int], count: int) -> list[str]:
    """Copies sentences to later places of `lines`, between opening and ending, and returns what was copied."""
    inner = range(bounds[0], len(lines) - bounds[1])
    chosen = [lines[i] for i in rng.sample(inner, min(count, len(inner)))]
    for line in chosen:
        lines.insert(rng.randint(lines.index(line) + 1, len(lines) - bounds[1]), line)
    return chosen


def _quoted(lines: Sequence[str]) -> str:
    return " and ".join(f'"{line.rstrip(".")}"' for line in lines)


def seen(made: Essay, dimension: str) -> tuple[str, tuple[int, ...]]:
    """What a judge sees on a dimension, and the scores that fit it."""
    scores = SCORES[dimension]
    if dimension == "clarity":
        words = ", ".join(f"{wrong} ({right})" for wrong, right in zip(made.wrong, made.meant, strict=True))
        text = f"Misspelt: {words}. That is {NUMBERS[len(made.wrong)]}." if words else "No word is misspelt."
        return text, scores[len(made.wrong)]
    if dimension == "variety":
        text = f"This comes twice: {_quoted(made.twice)}." if made.twice else "Nothing comes twice."
        return text, scores[len(made.twice)]
    if dimension == "focus":
        text = f"This is off the topic: {_quoted(made.strays)}." if made.strays else "Every sentence is on the topic."
        return text, scores[len(made.strays)]
    if dimension == "evidence":
        count = len(made.people)
        about = f"The examples are about {', '.join(made.people)}. That is {NUMBERS[count]}."
        return about if count else "There are no examples.", scores[count]
    if dimension == "structure":
        start = "It opens with a claim" if made.opened else "It has no claim at the start"
        end = "it ends with a conclusion" if made.ended else "it has no conclusion"
        link = "and" if made.opened == made.ended else "but"
        return f"{start} {link} {end}.", scores[2 - made.opened - made.ended]
    if made.rude:
        return f"This is rude: {_quoted(made.rude)}.", scores[1 + len(made.rude)]
    text = f"This is friendly: {_quoted(made.warm)}." if made.warm else "It is neither rude nor friendly."
    return text, scores[len(made.warm)]


def grades(scores: Sequence[int]) -> tuple[str, ...]:
    """The grades that fit a mean of scores: from 4.5 on an A, then a grade for each point; both at a border."""
    twice, count = 2 * sum(scores), len(scores)
    step = min(max((twice - 3 * count) // (2 * count), 0), 3)
    is_border = twice in (5 * count, 7 * count, 9 * count)
    return (GRADES[step - 1], GRADES[step]) if is_border else (GRADES[step],)


def summary(names: Sequence[str], scores: Sequence[int]) -> str:
    """One sentence with a word for each score, without commas, as a program's pattern may want it."""
    parts = [f"the {name} is {WORDS[score]}" for name, score in zip(names, scores, strict=True)]
    return f"{' while '.join(' and '.join(parts[i:i + 2]) for i in range(0, len(parts), 2))}."


DIMENSION_ASKS = ("Evaluate the essay on the following dimension: {d}. End your judgment with the word END.",
                  "Judge the essay on this dimension: {d}. End with END.", "Dimension: {d}. Say END when you are done.",
                  "Now judge the {d}. End your judgment with the word END.")


def _dimension(rng: Random) -> tuple[str, str]:
    """A dimension and one of its names."""
    dimension = rng.choice(tuple(DIMENSIONS))
    return dimension, rng.choice(DIMENSIONS[dimension])


def judge_ask(rng: Random, asks: Sequence[str], name: str, made: Essay) -> str:
    return about(rng, rng.choice(asks), made.text, "Essay", d=name)


def judge(rng: Random, asks: Sequence[str] = JUDGE_ASKS) -> Item:
    """One essay on one dimension: what is seen, then the score."""
    dimension, name = _dimension(rng)
    made = essay(rng, dimension)
    text, scores = seen(made, dimension)
    score = str(rng.choice(scores))
    return Item(made.key, judge_ask(rng, asks, name, made), score, f"{text} Score: {score}",
                labels=("Essay", "Judgment"))


def _not_an_essay(rng: Random) -> str:
    """A list, a note, a greeting, or words without an order."""
    subject = rng.choice(SUBJECTS)
    titles = rng.sample([p.title for p in (*subject.good, *subject.bad)], 3)
    city, hobby, name = rng.choice(CITIES), rng.choice(HOBBIES), rng.choice(PEOPLE)
    kind = rng.randrange(4)
    if kind == 0:
        return " ".join(f"{i}. {title}" for i, title in enumerate(titles, 1))
    if kind == 1:
        return f"Dear {name}, see you in {city} at {rng.randint(1, 12)} o'clock. Bring {a(rng.choice(PETS))}."
    if kind == 2:
        return f"Buy {rng.randint(2, 90)} eggs, {rng.choice(COLORS)} paint and a ticket to {city}. Call {name}."
    words = f"{subject.name} {hobby} {' '.join(titles)} {city} {rng.choice(COLORS)}".lower().split()
    rng.shuffle(words)
    return " ".join(words)


def is_essay(rng: Random) -> Item:
    """Whether a text is an essay at all."""
    made = essay(rng).text if (yes := rng.random() < 0.5) else _not_an_essay(rng)
    answer = "yes" if yes else "no"
    ask = about(rng, rng.choice(VALID_ASKS), made, "Text")
    return Item(f"essay/{made}", ask, answer, answer, made, ("Text", "Essay"), ("yes", "no"))


def is_about(rng: Random) -> Item:
    """Whether an essay is about a subject: its subject is said first."""
    made = essay(rng)
    others = [subject.name for subject in SUBJECTS if subject.name != made.subject]
    asked = made.subject if (yes := rng.random() < 0.5) else rng.choice(others)
    answer = "yes" if yes else "no"
    ask = about(rng, rng.choice(ABOUT_ASKS), made.text, "Essay", s=asked)
    return Item(made.key, ask, answer, f"It is about {made.subject}. {answer.capitalize()}.", choices=("yes", "no"))


def verdict(names: Sequence[str], scores: Sequence[int], letter: str) -> dict[str, str]:
    return {"summary": upper_first(summary(names, scores)), "grade": letter}


def merged(rng: Random, names: Sequence[str], scores: Sequence[int]) -> str:
    """The summary and the grade as JSON."""
    return json.dumps(verdict(names, scores, rng.choice(grades(scores))))


def grade_key(names: Sequence[str], scores: Sequence[int]) -> str:
    return f"grades/{'/'.join(f'{name}={score}' for name, score in zip(names, scores, strict=True))}"


def grade(rng: Random, asks: Sequence[str] = MERGE_ASKS) -> Item:
    """Scores on two to four dimensions into a summary and a grade."""
    chosen = rng.sample(tuple(DIMENSIONS), rng.choice((2, 3, 3, 4)))
    names = [rng.choice(DIMENSIONS[dimension]) for dimension in chosen]
    scores = [rng.randint(1, 5) for _ in names]
    lines = rng.choice(("\n", ", ")).join(f"{name} {score}" for name, score in zip(names, scores, strict=True))
    lead = rng.choice(("Scores of an essay:\n", "An essay was judged.\n", "Judgments:\n", "The scores are "))
    text = merged(rng, names, scores)
    return Item(grade_key(names, scores), f"{lead}{lines}\n{said(rng, rng.choice(asks))}", text, text)


def grade_unseen(rng: Random) -> Item:
    return grade(rng, UNSEEN_MERGE_ASKS)


def judgments(rng: Random, made: Essay) -> list[tuple[str, str, int]]:
    """Name, text and score on some dimensions.

    The scores together are of the same side of what is held out as the essay, since the merge is an instance too.
    """
    wanted = held_out(made.key)
    while True:
        out = []
        for dimension in rng.sample(tuple(DIMENSIONS), rng.choice((2, 3, 3, 4))):
            text, scores = seen(made, dimension)
            out.append((rng.choice(DIMENSIONS[dimension]), text, rng.choice(scores)))
        if held_out(grade_key([name for name, _, _ in out], [score for _, _, score in out])) == wanted:
            return out


def _capital(rng: Random, name: str) -> str:
    return rng.choice((name, name.capitalize()))


def essay_chat(rng: Random) -> Passage:
    """The turns of a program that judges an essay: is it one, a dimension or two, the merge."""
    made = essay(rng)
    judged = judgments(rng, made)
    lead = rng.choice(("Please evaluate an essay.\n\nEssay: {e}", "Essay: {e}", "Here is my essay. {e}", "{e}",
                       "Judge this essay.\n{e}")).format(e=made.text)
    turns = [(lead, rng.choice(("Sure!", "Sure!", "OK.", "Yes, of course.")))]
    if rng.random() < 0.6:
        turns.append((rng.choice(("Is it a valid essay?", "Is this an essay?", "Is it an essay? yes or no?")), "yes"))
    for name, text, score in judged[:rng.choice((0, 1, 2, 3))]:
        ask = rng.choice(DIMENSION_ASKS).format(d=_capital(rng, name))
        turns.append((ask, f"Judgment:{JOINT} {text} Score:{JOINT} {score} END"))
    if rng.random() < 0.5:
        shown = "\n".join(f"{name}: {text} Score: {score}" for name, text, score in judged)
        answer = merged(rng, [name for name, _, _ in judged], [score for _, _, score in judged])
        turns.append((f"{shown}\n\n{said(rng, rng.choice(MERGE_ASKS))}", answer))
    return Passage(made.key, chat(turns, rng.choice(("", "", "You judge essays.", "You are a fair teacher."))))


def essay_text(rng: Random) -> Passage:
    """The same in running text: the essay, judgements under their dimensions, a summary line and a grade."""
    made = essay(rng)
    judged = judgments(rng, made)
    gap = rng.choice(("\n", " "))
    lead = rng.choice(("Essay: ", "Essay:\n", "Please judge the following essay. Essay: ", "Read this essay.\n\n"))
    before = rng.choice(("Judgment on {d}:", "Please judge the following essay on {d}. Judgment:", "{d}:",
                         "Now judge the {d}.\nJudgment:"))
    shown = judged if rng.random() < 0.8 else judged[:1]
    parts = [lead + made.text]
    for name, text, score in shown:
        parts.append(f"{before.format(d=_capital(rng, name))}{JOINT} {text}{gap}Score:{JOINT} {score}")
    if shown == judged:
        names, scores = [name for name, _, _ in judged], [score for _, _, score in judged]
        parts.append(f"In summary,{JOINT} {summary(names, scores)}")
        before = rng.choice(("The grade is", "Grade:", "The grade of it is"))
        parts.append(f"{before}{JOINT} {rng.choice(grades(scores))}")
    return Passage(made.key, rng.choice(("\n", "\n\n")).join(parts) + "\n")
