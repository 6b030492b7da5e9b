"""Invented characters as JSON. What a request says of one is kept; the rest is free, within what goes together."""

from __future__ import annotations

from random import Random

from ..items import JOINT, Item, Passage, a, upper_first, weighted
from ..tables import table
from .invented import BEASTS, COLORS, HOBBIES, JOBS, PETS, first_name, surname, town
from .json_text import LOOKS, Frames, Record, Shape, dump, in_style, jointed, request, style

DATA = table("characters")

SPECIES = {"human": (8, 90), "elf": (80, 900), "dwarf": (40, 300), "giant": (20, 200), "fairy": (10, 500),
           "goblin": (5, 60), "dragon": (100, 2000), "robot": (1, 40), "ghost": (50, 700)}
SPECIES_WEIGHTS = ((30, "human"), (12, "elf"), (10, "dwarf"), (5, "giant"), (6, "fairy"), (5, "goblin"), (5, "dragon"),
                   (4, "robot"), (4, "ghost"))
MAGIC_JOBS = ("wizard", "witch", "healer", "alchemist", "fortune teller", "student of magic")
FIGHTERS = ("knight", "archer", "guard", "ranger", "dragon tamer", "captain")
TOOLS = {"wand": ("wood", ("oak", "willow", "holly", "birch", "yew", "ash", "elder", "cherry", "maple"),
                  ("phoenix feather", "dragon scale", "unicorn hair", "moonstone", "silver thread"), (8, 15)),
         "staff": ("material", ("oak", "ash", "iron", "bone", "crystal"),
                   ("moonstone", "fire crystal", "star dust", "amber"), (40, 70)),
         "sword": ("material", ("steel", "silver", "bronze", "black iron"),
                   ("none", "fire crystal", "dragon tooth", "ice"), (25, 45)),
         "tool": ("material", ("wood", "steel", "copper", "brass"), ("none", "spring", "magnet", "stone"), (5, 30))}
HOUSES = ("Stormhill", "Amberlake", "Willowmere", "Foxglove", "Ravenrock", "Silverbrook")
STRENGTHS = ("courage", "patience", "humor", "loyalty", "wisdom", "speed", "kindness", "curiosity", "honesty", "calm")
WEAKNESSES = ("impatience", "fear of the dark", "pride", "forgetfulness", "greed", "bad eyesight", "shyness", "anger",
              "fear of water", "laziness")
MAGIC_PETS = ("owl", "toad", "raven", "snake", "small dragon", "bat", "phoenix")
NAMES = {"name": "name character_name", "age": "age years", "species": "species race", "job": "job occupation role",
         "home": "home town lives_in", "house": "house", "pet": "pet animal", "likes": "likes hobby",
         "favorite_color": "favorite_color color", "strengths": "strengths", "weakness": "weakness fear",
         "magical": "magical has_magic", "alive": "alive is_alive", "friend": "friend best_friend", "tool": "tool",
         "guardian": "guardian patron spirit_animal"}
KEYS = {field: tuple(names.split()) for field, names in NAMES.items()}
TYPES = {"age": "integer", "strengths": "array", "magical": "boolean", "alive": "boolean"}
USUAL = ("name", "age", "species", "job", "home", "likes")

FRAMES = DATA.get("frames", Frames)


def _tool(rng: Random, job: str) -> tuple[str, Record]:
    """What somebody of this job carries, and its parts."""
    if job in MAGIC_JOBS:
        kind = weighted(rng, ((7, "wand"), (3, "staff")))
    else:
        kind = weighted(rng, ((8, "sword"), (2, "staff"))) if job in FIGHTERS else "tool"
    stuff, stuffs, cores, (low, high) = TOOLS[kind]
    length = rng.randint(low, high) + rng.choice((0, 0, 0.5, 0.25, 0.75))
    return kind, {stuff: rng.choice(stuffs), "core": rng.choice(cores), "length": length}


def invented(rng: Random) -> tuple[Record, str]:
    """A character with all fields, and the word for its tool."""
    species = weighted(rng, SPECIES_WEIGHTS)
    job = rng.choice(weighted(rng, ((4, MAGIC_JOBS), (3, FIGHTERS), (4, JOBS))))
    kind, tool = _tool(rng, job)
    name = first_name(rng)[0] + (f" {surname(rng)}" if rng.random() < 0.3 else "")
    return {
        "name": name, "age": rng.randint(*SPECIES[species]), "species": species, "job": job, "home": town(rng),
        "house": rng.choice(HOUSES), "pet": rng.choice(MAGIC_PETS if job in MAGIC_JOBS else PETS),
        "likes": rng.choice(HOBBIES), "favorite_color": rng.choice(COLORS), "strengths": rng.sample(STRENGTHS, 2),
        "weakness": rng.choice(WEAKNESSES), "magical": job in MAGIC_JOBS or species in ("fairy", "dragon"),
        "alive": species != "ghost" and rng.random() < 0.9, "friend": first_name(rng)[0], "tool": tool,
        "guardian": rng.choice(BEASTS),
    }, kind


def _subject(rng: Random, who: Record) -> tuple[str, tuple[str, ...]]:
    """The character as a request names it, and which fields that says."""
    says = rng.choice((
        ("{name}", "name"), ("a character named {name}", "name"), ("the character {name}", "name"),
        ("{a_species} named {name}", "name species"), ("{a_job} called {name}", "name job"),
        ("{name}, {a_job} from {home}", "name job home"), ("{name}, {a_species} who likes {likes}",
         "name species likes"),
        ("{name}, {a_species} of {age} years who works as {a_job}", "name species age job"),
        ("{a_species} named {name} who lives in {home} and has {a_pet}", "name species home pet"),
        ("{a_job} from {home} who has {a_pet}", "job home pet"), ("{name} of house {house}", "name house"),
        ("{a_species} who works as {a_job}", "species job"), ("a story character", ""), ("a fantasy character", ""),
        ("{name}, whose best friend is {friend}", "name friend"),
        ("{name} with a fondness for {likes} and for the color {favorite_color}", "name likes favorite_color"),
    ))
    words = who | {f"a_{field}": a(who[field]) for field in ("species", "job", "pet")}
    return says[0].format_map(words), tuple(says[1].split())


def _asked(rng: Random, who: Record, tool: str, said: tuple[str, ...], usual: bool,
           letters: str) -> tuple[Record, Shape, Record]:
    """The wanted part of a character under the wanted keys, its shape, and the values that the request fixed."""
    fields = list(USUAL)
    if not usual:
        others = [field for field in who if field != "name"]
        fields = ["name", *rng.sample(others, rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8)))]
    record: Record = {}
    shape: Shape = {}
    for field in fields:
        names = KEYS[field] if field != "tool" else (tool,)
        key = in_style(names[0] if usual or rng.random() < 0.6 else rng.choice(names), "snake" if usual else letters)
        record[key] = who[field]
        shape[key] = TYPES.get(field, "string")
        if field == "tool":
            shape[key] = {part: "number" if part == "length" else "string" for part in who["tool"]}
    fixed = {key: record[key] for key, field in zip(record, fields, strict=True) if field in said}
    return record, shape, fixed


def character_parts(rng: Random) -> tuple[Item, list[str], Record]:
    """A request with one possible answer, the keys that every answer has, the values that it must keep."""
    who, tool = invented(rng)
    subject, said = _subject(rng, who)
    look = weighted(rng, LOOKS)
    record, shape, fixed = _asked(rng, who, tool, said, look == "bare", "snake" if look == "code" else style(rng))
    if look == "code" and tool in shape:
        look = "schema"
    ask, indent = request(rng, FRAMES, look, subject, shape, "Character")
    text = dump(record, indent)
    return Item(f"character/{dump(record)}", ask, text, text, labels=("Character", "JSON")), list(record), fixed


def character_item(rng: Random) -> Item:
    return character_parts(rng)[0]


LEADS = (
    "Invent a character as JSON.\n", "A character in a story, as JSON:\n", "Character:\n",
    "{s} is a character in a story.\n",
    "Please fill in the following information about {s}.\n", "{s} as JSON:\n", "Character sheet of {s}\n", "",
    "This is {s}. Please fill in the following information about this character.\n", "Here is {s} in JSON format:\n",
    "Tonight's story is about {s}.\nCharacter in JSON:\n", "# {s}\n", "The hero of the game is {s}.\nJSON:\n",
)


def character(rng: Random) -> Passage:
    """A character in running text; a program may fill any single value."""
    who, tool = invented(rng)
    subject, said = _subject(rng, who)
    lead = rng.choice(LEADS)
    record, _, _ = _asked(rng, who, tool, said, rng.random() < 0.15, style(rng))
    text = jointed(record, rng.choice((None, None, 2, 4)), rng.random() < 0.65)
    return Passage(f"character/{dump(record)}", upper_first(lead.format(s=subject)) + JOINT + text)
