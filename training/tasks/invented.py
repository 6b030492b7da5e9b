"""Made-up names and the words that invented things are described with.

Names are put together from syllables, so that there are far more of them than training can learn by heart: what is
left to learn is to copy them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

PEOPLE = ("Mira", "Tom", "Anna", "Ben", "Clara", "David", "Ella", "Felix", "Grace", "Henry", "Iris", "Jack", "Kira",
          "Leo", "Maya", "Noah", "Olga", "Paul", "Rosa", "Sam", "Tina", "Uma", "Victor", "Wendy", "Yara", "Zoe",
          "Alice", "Bob", "Carol", "Emil", "Nina", "Oscar")
CITIES = ("Lisbon", "Oslo", "Vienna", "Prague", "Madrid", "Dublin", "Rome", "Riga", "Athens", "Warsaw", "Paris",
          "Berlin", "Tokyo", "Lima", "Cairo", "Seoul")
JOBS = ("baker", "teacher", "doctor", "painter", "farmer", "pilot", "nurse", "gardener", "singer", "lawyer", "cook",
        "engineer", "writer", "carpenter", "sailor", "dentist")
HOBBIES = ("chess", "swimming", "reading", "painting", "cycling", "gardening", "hiking", "cooking", "dancing",
           "fishing", "football", "photography", "singing", "sewing", "tennis", "skiing")
COLORS = ("red", "blue", "green", "yellow", "purple", "orange", "pink", "brown", "black", "white")
PETS = ("cat", "dog", "rabbit", "parrot", "horse", "turtle", "mouse", "goat")
STARTS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "j", "k", "kr", "l", "m", "n", "p", "pl", "r", "s", "st", "t",
          "tr", "v", "w", "z")
VOWELS = ("a", "e", "i", "o", "u")
CODAS = ("l", "n", "r", "s", "m", "k", "nd", "rt", "lv", "mp")
STEMS = tuple((start + vowel + coda).capitalize() for start in STARTS for vowel in VOWELS for coda in CODAS
              if start + vowel + coda not in ("fuk", "dik", "kuk"))
WOMAN_ENDS = ("a", "ia", "ina", "ela", "une")
MAN_ENDS = ("o", "an", "us", "ek", "or")
SURNAME_ENDS = ("er", "dal", "son", "ov", "man", "berg", "ley", "ini")
TOWN_ENDS = ("ford", "wick", "by", "ham", "stad", "mere", "vale", "port", "ton", "field")
BRAND_ENDS = ("ex", "ix", "tec", "on", "ara", "o")
WOMEN = frozenset(("Mira", "Anna", "Clara", "Ella", "Grace", "Iris", "Kira", "Maya", "Olga", "Rosa", "Tina", "Uma",
                   "Wendy", "Yara", "Zoe", "Alice", "Carol", "Nina"))
ANYONE = frozenset(("Sam",))
MEN = frozenset(PEOPLE) - WOMEN - ANYONE
WOMEN_NAMES = tuple(name for name in PEOPLE if name in WOMEN)
KNOWN_PEOPLE = tuple((name, "he" if name in MEN else "she") for name in PEOPLE if name not in ANYONE)


def stem(rng: Random) -> str:
    """A syllable with a capital, such as Brel or Tand."""
    return rng.choice(STEMS)


def first_name(rng: Random) -> tuple[str, str]:
    """A name, ordinary or made up, and its pronoun."""
    if rng.random() < 0.4:
        return rng.choice(KNOWN_PEOPLE)
    woman = rng.random() < 0.5
    return stem(rng) + rng.choice(WOMAN_ENDS if woman else MAN_ENDS), "she" if woman else "he"


def surname(rng: Random) -> str:
    return stem(rng) + rng.choice(SURNAME_ENDS)


def somebody(rng: Random) -> str:
    """A first name, half of the time with a surname."""
    name, _ = first_name(rng)
    return f"{name} {surname(rng)}" if rng.random() < 0.5 else name


def town(rng: Random) -> str:
    return stem(rng) + rng.choice(TOWN_ENDS)


def brand(rng: Random) -> str:
    return stem(rng) + rng.choice(BRAND_ENDS)


def _number(low: int, high: int, step: int = 1) -> Callable[[Random], str]:
    return lambda rng: str(rng.randrange(low, high + 1, step))


def _hour(low: int, high: int, half: str) -> Callable[[Random], str]:
    def hour(rng: Random) -> str:
        return f"{rng.randint(low, high)}{rng.choice(('', ':15', ':30', ':45'))} {half}"

    return hour


def _two(first: tuple[str, ...], second: tuple[str, ...], form: str) -> Callable[[Random], str]:
    return lambda rng: form.format(rng.choice(first), rng.choice(second))


def _of(*words: str) -> Callable[[Random], str]:
    return lambda rng: rng.choice(words)


DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")
FOODS = ("pizza", "rice", "soup", "cheese", "bread", "salad", "fish", "noodles", "pancakes", "beans", "apple pie",
         "chocolate", "honey cake", "potatoes", "tomato soup", "plum cake", "ice cream", "dumplings")
DRINKS = ("tea", "coffee", "milk", "lemonade", "apple juice", "hot chocolate", "water", "orange juice")
FRUITS = ("apples", "plums", "pears", "cherries", "nuts", "onions", "carrots", "lemons", "grapes", "beans", "tomatoes",
          "peas")
SPICES = ("salt", "pepper", "mint", "ginger", "garlic", "honey", "mustard", "basil", "vanilla", "lemon juice")
INSTRUMENTS = ("piano", "violin", "guitar", "flute", "drum", "trumpet", "harp", "cello")
MATERIALS = ("wood", "glass", "steel", "paper", "stone", "leather", "copper", "wool", "clay", "cork")
GOODS = ("lamps", "chairs", "clocks", "boots", "candles", "toys", "bicycles", "hats", "spoons", "carpets", "violins",
         "umbrellas", "baskets", "mirrors", "kites", "pencils", "bells", "tents")
THINGS = ("map", "clock", "lamp", "mirror", "ball", "rope", "drum", "bell", "basket", "mask", "box", "key", "crown",
          "candle", "ring", "flag")
BEASTS = ("fox", "bear", "wolf", "lion", "owl", "eagle", "seal", "tiger", "deer", "otter", "goose", "camel", "crane",
          "beaver")
LANGUAGES = ("Spanish", "French", "German", "Italian", "Greek", "Polish", "Danish", "Turkish", "Japanese", "Swedish")
SMALL_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve")
MUSIC = ("jazz", "rock music", "folk songs", "piano music", "drum music", "dance music", "old songs", "choir music")
NATURE = ("forest", "lake", "sea", "river", "garden", "hills", "harbor", "old town", "park", "mountains")
TRAVEL = ("sled", "boat", "train", "balloon", "camel", "truck", "bicycle", "canoe")
TASKS = ("waters the plants", "cleans the windows", "carries boxes", "paints walls", "sorts letters", "bakes bread",
         "guards the door", "washes plates", "plants trees", "counts coins", "sweeps the yard", "picks fruit")

SPOTS = ("in the kitchen", "in the garage", "in the cellar", "under the stairs", "behind the house", "in the hall",
         "next to the door", "on the balcony", "in the yard", "near the window", "under the bridge", "in the old barn",
         "behind the school", "in the workshop", "by the fence", "in the shed", "next to the piano", "on the porch",
         "in front of the bakery", "at the back of the shop", "in the office", "under the big tree")

POOLS: dict[str, Callable[[Random], str]] = {
    "job": _of(*JOBS), "hobby": _of(*HOBBIES), "color": _of(*COLORS), "pet": _of(*PETS), "day": _of(*DAYS),
    "month": _of(*MONTHS), "food": _of(*FOODS), "drink": _of(*DRINKS), "fruit": _of(*FRUITS), "spice": _of(*SPICES),
    "instrument": _of(*INSTRUMENTS), "material": _of(*MATERIALS), "goods": _of(*GOODS), "thing": _of(*THINGS),
    "spot": _of(*SPOTS), "first": lambda rng: first_name(rng)[0], "brand": brand,
    "beast": _of(*BEASTS), "language": _of(*LANGUAGES), "few": _of(*SMALL_NUMBERS), "music": _of(*MUSIC),
    "nature": _of(*NATURE), "travel": _of(*TRAVEL), "task": _of(*TASKS), "town": town, "person": somebody,
    "age": _number(18, 90), "years": _number(2, 30), "year": _number(1700, 2020),
    "recent year": _number(1960, 2025), "price": _number(2, 90),
    "tens": _number(20, 900, 10), "hundreds": _number(200, 9900, 100), "count": _number(3, 60),
    "minutes": _number(5, 90, 5), "morning": _hour(6, 11, "am"), "evening": _hour(1, 10, "pm"), "room": _number(1, 40),
    "river": lambda rng: stem(rng) + rng.choice(("a", "e", "on", "ar")),
    "old thing": _two(("gold", "silver", "wooden", "glass", "stone", "iron"), THINGS, "{} {}"),
    "picture": _two(COLORS, ("flower", "boat", "horse", "tree", "house", "bird", "fish", "bridge"), "{} {}"),
    "street": _two(("Oak", "Mill", "Church", "River", "Garden", "Bridge", "Station", "Hill", "Lake", "Castle"),
                   ("Street", "Road", "Lane", "Square"), "{} {}"),
}
