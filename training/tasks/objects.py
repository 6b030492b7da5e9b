"""JSON objects about the world and about people in a sentence; questions about given notes; choosing a tool."""

from __future__ import annotations

import json
from random import Random

from ..items import JOINT, Item, Passage, a, weighted
from ..world import ANIMALS, COUNTRIES, ELEMENTS, PLANETS, bare
from .talk import CITIES, COLORS, HOBBIES, JOBS, PEOPLE, PETS

NUMBERS = {"no": 0, "two": 2, "four": 4, "six": 6, "eight": 8}
PLACES = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8}


def _record(rng: Random) -> tuple[str, dict[str, str | int]]:
    """A thing of the world with all its fields."""
    kind = weighted(rng, ((4, "country"), (3, "animal"), (2, "element"), (1, "planet")))
    if kind == "country":
        land = rng.choice(COUNTRIES)
        return kind, {"name": bare(land.name), "capital": land.capital, "continent": land.continent,
                      "language": land.language, "currency": land.currency}
    if kind == "animal":
        animal = rng.choice(ANIMALS)
        return kind, {"name": animal.name, "class": animal.kind, "food": animal.food, "home": animal.home,
                      "legs": NUMBERS[animal.legs]}
    if kind == "element":
        element = rng.choice(ELEMENTS)
        return kind, {"name": element.name, "symbol": element.symbol, "number": int(element.number),
                      "state": element.state}
    planet = rng.choice(PLANETS)
    return kind, {"name": planet.name, "position": PLACES[planet.place], "type": planet.kind}


def _some_fields(rng: Random, record: dict[str, str | int]) -> dict[str, str | int]:
    """The name and some of the other fields, mostly in their usual order."""
    others = [k for k in record if k != "name"]
    kept = rng.sample(others, rng.randint(1, len(others)))
    if rng.random() < 0.7:
        kept.sort(key=others.index)
    return {"name": record["name"], **{k: record[k] for k in kept}}


def dump(rng: Random, record: dict[str, str | int]) -> str:
    return json.dumps(record, ensure_ascii=False, indent=rng.choice((None, None, 2, 4)))


def world_object(rng: Random) -> Item:
    kind, record = _record(rng)
    fields = _some_fields(rng, record)
    named = f" with {', '.join(fields)}" if rng.random() < 0.6 else ""
    if not named:
        fields = record
    ask = rng.choice(("Give {n} as JSON{f}.", "Describe {n} in JSON{f}.", "Write a JSON object about the {k} {n}{f}.",
                      "Return JSON for {n}{f}.", "Please fill in a JSON object{f} for {n}.")).format(
        n=record["name"], k=kind, f=named)
    text = dump(rng, fields)
    return Item(f"json/{record['name']}/{'/'.join(fields)}", ask, text, text, str(record["name"]),
                (kind.capitalize(), "JSON"))


def world_object_text(rng: Random) -> Passage:
    """A JSON object in running text, where a program may fill any single value."""
    kind, record = _record(rng)
    fields = _some_fields(rng, record)
    text = dump(rng, fields)
    for key in fields:
        text = text.replace(f'"{key}":', f'"{key}":{JOINT}')
    lead = rng.choice(("", f"{record['name']} in JSON:\n", f"{record['name']}:\n", f"The {kind} as JSON:\n",
                       f"Here is the information about {record['name']} in JSON format:\n",
                       f"Please fill in the following information about {record['name']}.\n"))
    return Passage(f"json/{record['name']}/{'/'.join(fields)}", lead + text)


def _person(rng: Random) -> dict[str, str | int]:
    return {"name": rng.choice(PEOPLE), "age": rng.randint(18, 90), "job": rng.choice(JOBS),
            "city": rng.choice(CITIES), "hobby": rng.choice(HOBBIES)}


def extraction(rng: Random) -> Item:
    """A sentence about a person into JSON."""
    person = _person(rng)
    text = rng.choice(("{name} is a {age}-year-old {job} from {city} who likes {hobby}.",
                       "{name}, {age}, works as a {job} in {city} and likes {hobby}.",
                       "In {city} lives {name}, a {job} of {age} years. The hobby of {name} is {hobby}.",
                       "{name} lives in {city}. {name} is {age} years old, works as a {job} and enjoys {hobby}."))
    text = text.format(**person)
    fields = _some_fields(rng, person)
    ask = f"Extract {', '.join(fields)} as JSON: {text}"
    out = json.dumps(fields, ensure_ascii=False)
    return Item(f"extract/{text}", ask, out, out, f"{text} ({', '.join(fields)})", ("Text", "JSON"))


def character(rng: Random) -> Passage:
    """An invented person as JSON, free in every field."""
    person = _person(rng) | {"pet": rng.choice(PETS), "color": rng.choice(COLORS)}
    fields = _some_fields(rng, person)
    text = dump(rng, fields)
    for name in fields:
        text = text.replace(f'"{name}":', f'"{name}":{JOINT}')
    lead = rng.choice(("Invent a character as JSON.\n", "A character in a story, as JSON:\n", "Character:\n"))
    return Passage(f"character/{text}", lead + text)


def notes(rng: Random, lines: int) -> Passage:
    """Lines about people, then questions about them; some have no answer in the notes."""
    names = rng.sample(PEOPLE, min(lines, len(PEOPLE) - 2))
    says = {"city": "{n} lives in {v}.", "job": "{n} works as a {v}.", "hobby": "{n} likes {v}.",
            "pet": "{n} has a {v}.", "color": "{n}'s favorite color is {v}."}
    asks = {"city": "Where does {n} live?", "job": "What is {n}'s job?", "hobby": "What does {n} like?",
            "pet": "What pet does {n} have?", "color": "What is {n}'s favorite color?"}
    words = {"city": CITIES, "job": JOBS, "hobby": HOBBIES, "pet": PETS, "color": COLORS}
    known = {(n, f): rng.choice(words[f]) for n in names for f in rng.sample(list(words), 1 + (lines > len(names)))}
    told = [says[f].format(n=n, v=v) for (n, f), v in known.items()]
    rng.shuffle(told)
    lead = rng.choice(("Notes:\n", "Read the notes and answer.\n\n", "Passage:\n", ""))
    asked = []
    for _ in range(rng.randint(1, 4)):
        name, field = rng.choice(list(known))
        if rng.random() < 0.15:
            name = rng.choice([p for p in PEOPLE if (p, field) not in known])
        answer = known.get((name, field))
        answer = "The notes do not say." if answer is None else answer[0].upper() + answer[1:]
        asked.append(f"Q: {asks[field].format(n=name)}\nA:{JOINT} {answer}")
    text = f"{lead}{rng.choice((' ', chr(10))).join(told)}\n\n" + "\n".join(asked)
    return Passage(f"notes/{told[0]}/{told[-1]}", text)


def tool(rng: Random, question: Item, is_sum: bool) -> Passage:
    """Which tool a question needs, in the words of the well-known example program."""
    name = "calculator" if is_sum else "search engine"
    lead = rng.choice(("To answer this question: {q} I need to use a", "To answer this question: {q}. I need to use a",
                       "Question: {q}\nThe tool to use is a", "Q: {q}\nTool:"))
    use = f"{JOINT} {name}"
    end = "\n" if lead.startswith("Q:") else "."
    after = f" The answer is{JOINT} {question.short}." if end == "." else f"A:{JOINT} {question.short}"
    return Passage(question.key, lead.format(q=question.ask) + use + end + after)


def person_line(rng: Random) -> str:
    person = _person(rng)
    return f"{person['name']} is {a(str(person['job']))} who lives in {person['city']} and likes {person['hobby']}."
