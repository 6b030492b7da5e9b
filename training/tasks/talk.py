"""What an assistant says about itself, polite words, requests beyond it, and real chance."""

from __future__ import annotations

from random import Random

from .. import forms
from ..alternatives import expand
from ..items import JOINT, Item, Passage, held_out, listing, upper_first, weighted
from ..tables import Texts, table
from .invented import COLORS, PEOPLE

DATA = table("talk")

SMALL_TALK = DATA.get("small_talk", tuple[tuple[Texts, str], ...])
SYSTEMS = ("You are a helpful assistant.", "You are a helpful assistant.", "You are a friendly assistant.",
           "You answer questions.", "You are an expert.", "You are a teacher.", "You are a geography teacher.",
           "You are a careful assistant.", "Be helpful.", "You are a travel guide.", "You are a scientist.")
BRIEF_SYSTEMS = ("Answer in one word.", "Answer briefly.", "You are a helpful assistant. Answer with the answer only.",
                 "Give short answers.", "Be brief.", "Answer with one word.")


OUTSIDE = DATA.get("outside", Texts)
OUTSIDE_TOPICS = DATA.get("outside_topics", Texts)


def outside(rng: Random) -> Item:
    """A request beyond what the model knows."""
    ask = rng.choice(OUTSIDE).format(t=rng.choice(OUTSIDE_TOPICS))
    return Item(f"outside/{ask}", ask, "I do not know", "I am sorry, I do not know that.")


def small_talk(rng: Random) -> Item:
    asks, answer = rng.choice(SMALL_TALK)
    ask = rng.choice(asks)
    return Item("talk", ask, answer, answer)


COIN = ("Flip a coin.", "Toss a coin.", "Heads or tails?", "Flip a coin for me.", "Throw a coin, please.",
        "Let a coin decide: heads or tails?", "Can you flip a coin?", "A fair coin is flipped. What comes up?",
        "I flip a coin. What do I get?", "Choose heads or tails at random.")
DIE = ("Roll a die.", "Throw a die.", "Roll the dice.", "Roll a die for me, please.", "Can you roll a die?",
       "A fair die is rolled. What comes up?", "I roll a die. What do I get?", "Give me a random number from 1 to 6.")
SUIT = ("Draw a card and tell me its suit.", "Pick a card suit.", "Which suit does a random card have?",
        "Draw a card. What is its suit?", "Choose a card suit at random.", "Name the suit of a random card.")
NUMBER = ("Give me a random number between 1 and {n}.", "Pick a number from 1 to {n}.",
          "Choose a number between 1 and {n}.", "Think of a number from 1 to {n}.",
          "A random number from 1 to {n}, please.")
PICK = ("Pick one of these at random: {l}.", "Choose one at random: {l}.", "Pick one: {l}.", "Draw a name from {l}.",
        "Who is first? Choose at random: {l}.", "Choose one of {l} for me.")
BAG = DATA.get("bag", Texts)
UNSEEN_BAG = ("My hat is full: {l}. I reach in with my eyes closed and pull out one. Its color?",
              "Suppose a sack contains {l} and you grab one.")
SUITS = ("hearts", "spades", "diamonds", "clubs")


def _drawn(key: str, ask: str, outcome: str, choices: tuple[str, ...]) -> Item:
    return Item(f"chance/{key}", ask, outcome, f"{outcome.capitalize()}.", choices=choices)


def bag(rng: Random, *, unseen: bool = False) -> tuple[Item, dict[str, int]]:
    """One ball drawn from a bag, and how many balls of each color there are."""
    colors = rng.sample(COLORS, rng.choice((2, 2, 3)))
    balls = {color: rng.randint(1, 5) for color in colors}
    held = listing([f"{count} {color} {'ball' if count == 1 else 'balls'}" for color, count in balls.items()])
    ask = expand(rng, rng.choice(UNSEEN_BAG if unseen else BAG))
    ask = ask.replace("{l}", held).replace("{L}", upper_first(held))
    outcome = weighted(rng, [(count, color) for color, count in balls.items()])
    key = "bag/" + "/".join(f"{count} {color}" for color, count in sorted(balls.items()))
    return _drawn(key, ask, outcome, tuple(colors)), balls


AGAIN = ("Again.", "Put it back and draw again.", "Once more.", "Another one.", "Put it back. Next?", "And now?",
         "Draw again.", "One more time.", "Next one, please.", "Put it back and take one more.")


def _bag_on_side(rng: Random) -> tuple[Item, dict[str, int]]:
    made = bag(rng)
    while held_out(made[0].key):
        made = bag(rng)
    return made


def draws(rng: Random) -> Passage:
    """Many draws: from one bag, the ball always being put back, or each from a bag of its own."""
    if rng.random() < 0.4:
        item, balls = _bag_on_side(rng)
        outcomes = rng.choices(list(balls), weights=list(balls.values()), k=rng.randint(4, 16))
        asks = [item.ask, *(rng.choice(AGAIN) for _ in outcomes[1:])]
        turns = [(ask, f"{color.capitalize()}.") for ask, color in zip(asks, outcomes, strict=True)]
        return Passage(item.key, forms.chat(turns))
    items = [_bag_on_side(rng)[0] for _ in range(rng.randint(6, 14))]
    key = "+".join(item.key for item in items)
    if rng.random() < 0.6:
        return Passage(key, forms.chat([(item.ask, item.full) for item in items]))
    labels = rng.choice((("Balls", "Drawn"), ("Bag", "Color"), ("Q", "A"), ("Question", "Answer")))
    return Passage(key, "\n".join(f"{labels[0]}: {item.ask}\n{labels[1]}:{JOINT} {item.short}" for item in items))


def chance(rng: Random) -> Item:
    """What comes up by chance, with the right probability: a coin, a die, a suit, a number, a name, a ball of a bag."""
    way = rng.random()
    if way < 0.12:
        return _drawn("coin", rng.choice(COIN), rng.choice(("heads", "tails")), ("heads", "tails"))
    if way < 0.22:
        sides = tuple("123456")
        return _drawn("die", rng.choice(DIE), rng.choice(sides), sides)
    if way < 0.3:
        return _drawn("suit", rng.choice(SUIT), rng.choice(SUITS), SUITS)
    if way < 0.42:
        top = rng.randint(3, 10)
        numbers = tuple(str(number) for number in range(1, top + 1))
        return _drawn("number", rng.choice(NUMBER).replace("{n}", str(top)), rng.choice(numbers), numbers)
    if way < 0.52:
        names = rng.sample(PEOPLE, rng.randint(2, 5))
        ask = rng.choice(PICK).replace("{l}", listing(names))
        return _drawn(f"names/{'/'.join(sorted(names))}", ask, rng.choice(names), tuple(names))
    return bag(rng)[0]
