"""Values for the texts to extract from: for each kind of text a record, and the words that say it where they differ."""

from __future__ import annotations

from random import Random

from .extraction_words import LAST_NAMES, LOOKS, MEN, PASTIMES, TOWNS, TRADES, WARES, WOMEN
from .invented import (
    BEASTS,
    COLORS,
    DAYS,
    FRUITS,
    MATERIALS,
    MONTHS,
    PETS,
    STEMS,
    THINGS,
    brand,
    first_name,
    stem,
    surname,
    town,
)
from .json_text import Record

Made = tuple[Record, Record]
SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
         "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
TOPICS = ("the budget", "the new website", "a school trip", "the garden", "the summer party", "the contract",
          "holidays", "the concert", "the house", "the next book", "prices", "the test results", "music lessons",
          "a new job")
MEETING_PLACES = ("office", "library", "town hall", "park", "cafeteria", "museum", "hotel", "main hall", "garden",
                  "station", "school", "blue room")
SKIES = ("sunny", "cloudy", "rainy", "snowy", "windy", "foggy", "stormy", "clear", "dry")
GENRES = ("novel", "thriller", "fairy tale", "travel book", "comedy", "biography", "adventure story", "cookbook")
DISHES = ("tomato soup", "apple pie", "rice salad", "potato pie", "fish stew", "bean soup", "mushroom rice",
          "lemon cake", "noodle salad", "onion bread", "carrot cake", "plum pudding")


def in_words(number: int) -> str:
    """0 to 99, as in thirty-four."""
    if number < 20:
        return SMALL[number]
    return TENS[number // 10] + (f"-{SMALL[number % 10]}" if number % 10 else "")


def said(rng: Random, number: int) -> str:
    return in_words(number) if rng.random() < 0.2 else str(number)


def city(rng: Random) -> str:
    return rng.choice(TOWNS) if rng.random() < 0.6 else town(rng)


def clock(rng: Random) -> str:
    if rng.random() < 0.5:
        return f"{rng.randint(7, 21)}:{rng.choice(('00', '15', '30', '45'))}"
    return f"{rng.randint(1, 12)} {rng.choice(('am', 'pm'))}"


def date(rng: Random) -> str:
    if rng.random() < 0.2:
        return f"20{rng.randint(20, 39)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    month, day = rng.choice(MONTHS), rng.randint(1, 28)
    return f"{month} {day}" if rng.random() < 0.6 else f"{day} {month}"


CENTS = ("25", "35", "45", "49", "5", "75", "79", "95", "99")
SIGNS = ("$", "$", "€", "£")


def money(rng: Random) -> tuple[float, str, str]:
    """A price, whole or with two decimal places, its currency, and both as a text says them: 4.50 euros or $4."""
    amount = rng.randint(1, 99) if rng.random() < 0.5 else float(f"{rng.randint(1, 99)}.{rng.choice(CENTS)}")
    shown = f"{amount}0" if str(amount).endswith(".5") else str(amount)
    if rng.random() < 0.35:
        sign = rng.choice(SIGNS)
        return amount, sign, f"{sign}{shown}"
    currency = rng.choice(("euros", "dollars", "pounds"))
    return amount, currency, f"{shown} {currency}"


def code(rng: Random) -> str:
    letters = "ABCDEFGHKLMNPRSTVXZ"
    return f"{rng.choice(letters)}{rng.choice(letters)}{rng.choice(('', ' '))}{rng.randint(100, 9999)}"


def named(rng: Random) -> tuple[str, str]:
    """A name, ordinary or made up, half of the time with a surname; and its pronoun."""
    if rng.random() < 0.5:
        woman = rng.random() < 0.5
        name, pronoun = rng.choice(WOMEN if woman else MEN), "she" if woman else "he"
    else:
        name, pronoun = first_name(rng)
    if rng.random() < 0.4:
        name = f"{name} {surname(rng) if rng.random() < 0.4 else rng.choice(LAST_NAMES)}"
    return name, pronoun


def pronouns(pronoun: str) -> Record:
    """The slots he, him, his and He, His."""
    him, his = ("him", "his") if pronoun == "he" else ("her", "her")
    return {"he": pronoun, "him": him, "his": his, "He": pronoun.capitalize(), "His": his.capitalize()}


def person(rng: Random) -> Made:
    name, pronoun = named(rng)
    age = rng.randint(18, 90)
    return {"name": name, "age": age, "job": rng.choice(TRADES), "city": city(rng), "hobby": rng.choice(PASTIMES),
            "pet": rng.choice(PETS)}, pronouns(pronoun) | {"age": said(rng, age), "trade": rng.choice(TRADES)}


def order(rng: Random) -> Made:
    customer, pronoun = named(rng)
    quantity, (price, currency, cost) = rng.randint(2, rng.choice((20, 99))), money(rng)
    item, ware = rng.sample(WARES, 2)
    if rng.random() < 0.45:
        item = f"{rng.choice(LOOKS)} {item}"
    words = {"quantity": said(rng, quantity), "ware": ware, "money": cost}
    return {"customer": customer, "item": item, "quantity": quantity, "price": price, "currency": currency,
            "day": rng.choice(DAYS)}, pronouns(pronoun) | words


def appointment(rng: Random) -> Made:
    day, other = rng.sample(DAYS, 2)
    return {"who": named(rng)[0], "day": day, "time": clock(rng), "place": rng.choice(MEETING_PLACES),
            "topic": rng.choice(TOPICS)}, {"otherday": other}


def product(rng: Random) -> Made:
    stock, (price, currency, cost) = rng.random() < 0.5, money(rng)
    words = ("is in stock", "is available") if stock else ("is sold out", "is not available", "is out of stock")
    return {"name": f"{brand(rng)} {rng.choice(THINGS)}", "color": rng.choice(COLORS), "price": price,
            "currency": currency, "material": rng.choice(MATERIALS), "in_stock": stock}, {
                "in_stock": rng.choice(words), "money": cost}


def flight(rng: Random) -> Made:
    start, end = city(rng), city(rng)
    while end == start:
        end = town(rng)
    return {"number": code(rng), "from": start, "to": end, "date": date(rng), "time": clock(rng),
            "gate": f"{rng.choice('ABCDEF')}{rng.randint(1, 40)}"}, {}


def contact(rng: Random) -> Made:
    first, last, firm = first_name(rng)[0], surname(rng), brand(rng)
    user = rng.choice((first, last, f"{first}.{last}", f"{first}{rng.randint(1, 99)}", f"{first[0]}{last}")).lower()
    host = rng.choice((firm, stem(rng), "mail", "post")).lower()
    phone = rng.choice((f"555-{rng.randint(0, 9999):04}", f"0{rng.randint(100, 999)} {rng.randint(10_000, 999_999)}",
                        f"+{rng.randint(20, 99)} {rng.randint(100, 999)} {rng.randint(1000, 9999)}"))
    return {"name": f"{first} {last}", "email": f"{user}@{host}.{rng.choice(('com', 'org', 'net'))}", "phone": phone,
            "company": firm, "city": city(rng)}, {}


def weather(rng: Random) -> Made:
    degrees, wind = rng.randint(-15, 35), rng.randint(5, 90)
    words = f"minus {said(rng, -degrees)}" if degrees < 0 else said(rng, degrees)
    return {"city": city(rng), "day": rng.choice(DAYS), "condition": rng.choice(SKIES), "temperature": degrees,
            "wind": wind}, {"temperature": words, "wind": said(rng, wind)}


def match(rng: Random) -> Made:
    teams: list[str] = []
    while len(teams) < 2:
        name = f"{city(rng)} {rng.choice(('United', 'City', 'Rovers', rng.choice(BEASTS).capitalize() + 's'))}"
        teams += [name.replace("Wolfs", "Wolves").replace("Foxs", "Foxes").replace("Deers", "Deer")
                  .replace("Gooses", "Geese")] if name not in teams else []
    mine, theirs = rng.randint(0, 6), rng.randint(0, 6)
    results = ("won", "lost") if mine > theirs else ("lost", "won") if mine < theirs else ("drew", "drew")
    return {"home": teams[0], "away": teams[1], "home_score": mine, "away_score": theirs, "day": rng.choice(DAYS),
            "scorer": named(rng)[0]}, {"home_result": results[0], "away_result": results[1]}


def book(rng: Random) -> Made:
    head = rng.choice(("The Silver", "The Lost", "The Last", "A Quiet", "The Green", "My Little", "The Secret",
                       "One Long"))
    title = f"{head} {rng.choice((*THINGS, *BEASTS, 'winter', 'river', 'garden', 'night')).capitalize()}"
    if rng.random() < 0.3:
        title += f" of {town(rng)}"
    return {"title": title, "author": f"{first_name(rng)[0]} {surname(rng)}", "year": rng.randint(1850, 2024),
            "pages": rng.randint(40, 900), "genre": rng.choice(GENRES)}, {}


def booking(rng: Random) -> Made:
    people = rng.randint(2, 20)
    place = f"{rng.choice(('Golden', 'Red', 'Old', 'Happy', 'Little', 'Blue'))} {rng.choice(BEASTS).capitalize()}"
    return {"name": named(rng)[0], "people": people, "day": rng.choice(DAYS), "time": clock(rng),
            "place": rng.choice((place, f"{stem(rng)}'s", f"Cafe {town(rng)}"))}, {"people": said(rng, people)}


def flat(rng: Random) -> Made:
    rooms, garden = rng.randint(2, 9), rng.random() < 0.5
    words = ("has a garden", "comes with a garden") if garden else ("has no garden", "comes without a garden")
    return {"city": city(rng), "rooms": rooms, "rent": rng.randint(20, 250) * 10, "floor": rng.randint(1, 12),
            "garden": garden, "owner": named(rng)[0]}, {"rooms": said(rng, rooms), "garden": rng.choice(words)}


def recipe(rng: Random) -> Made:
    minutes, servings, meatless = rng.randrange(10, 95, 5), rng.randint(2, 12), rng.random() < 0.5
    words = ("is vegetarian", "is without meat") if meatless else ("is not vegetarian", "is made with meat")
    return {"dish": rng.choice(DISHES), "minutes": minutes, "servings": servings, "main_ingredient": rng.choice(FRUITS),
            "vegetarian": meatless}, {"minutes": said(rng, minutes), "servings": said(rng, servings),
                                      "vegetarian": rng.choice(words)}


def parcel(rng: Random) -> Made:
    sender, receiver = named(rng)[0], named(rng)[0]
    while receiver == sender:
        receiver = named(rng)[0]
    weight = rng.randint(1, 30) if rng.random() < 0.5 else float(f"{rng.randint(1, 30)}.{rng.randint(1, 9)}")
    return {"number": f"{rng.choice(STEMS)[:2].upper()}{rng.randint(10_000, 999_999)}", "sender": sender,
            "receiver": receiver, "city": city(rng), "weight": weight, "day": rng.choice(DAYS)}, {}


def noise(rng: Random) -> Record:
    """For the slots that are no field."""
    return {"other": first_name(rng)[0], "place": city(rng), "count": rng.randint(2, 40),
            "long": rng.randint(100, 9999)}
