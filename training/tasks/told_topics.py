"""What a user may tell about himself or herself, how, and how it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from .invented import (
    CITIES,
    COLORS,
    DRINKS,
    FOODS,
    HOBBIES,
    INSTRUMENTS,
    JOBS,
    LANGUAGES,
    MONTHS,
    PETS,
    WOMAN_ENDS,
    WOMEN_NAMES,
    first_name,
    somebody,
    stem,
    town,
)


@dataclass(frozen=True, slots=True)
class Topic:
    """{v} is the value, {a} the value with "a" or "an". The last of the asks is for the evaluation only.

    changes: ways to tell a newer value. of_friend: how it is told of {f}, how it is asked, and the answer.
    near: makes a topic that is easily taken for this one.
    """

    noun: str
    value: Callable[[Random], str]
    tells: tuple[str, ...]
    asks: tuple[str, ...]
    answer: str
    changes: tuple[str, ...] = ()
    of_friend: tuple[str, str, str] | None = None
    near: Callable[[Random], Topic | None] | None = None


def _words(*words: str) -> Callable[[Random], str]:
    return lambda rng: rng.choice(words)


def _number(low: int, high: int) -> Callable[[Random], str]:
    return lambda rng: str(rng.randint(low, high))


def _woman(rng: Random) -> str:
    return rng.choice(WOMEN_NAMES) if rng.random() < 0.4 else stem(rng) + rng.choice(WOMAN_ENDS)


def _town(rng: Random) -> str:
    return rng.choice(CITIES) if rng.random() < 0.6 else town(rng)


def _code_word(rng: Random) -> str:
    return rng.choice(CODE_WORDS) if rng.random() < 0.6 else stem(rng).lower() + stem(rng).lower()


def _hour(rng: Random) -> str:
    return f"{rng.randint(1, 12)}{rng.choice(('', ':15', ':30', ':45'))} {rng.choice(('am', 'pm'))}"


PLACES = ("under the mat", "in the blue bowl", "on the kitchen table", "behind the clock", "in my coat", "in the car",
          "on the shelf", "in the top drawer", "next to the door", "under the flower pot", "in the red box",
          "on the window sill", "in my bag", "behind the books", "on the hook", "in the garage")
CODE_WORDS = ("tiger", "lemon", "castle", "river", "candle", "rocket", "pepper", "violin", "window", "summer", "anchor",
              "button", "marble", "thunder", "pumpkin", "silver")

TOPICS = (
    Topic("name", lambda rng: first_name(rng)[0],
          ("My name is {v}.", "I am {v}.", "I'm {v}.", "Call me {v}.", "The name is {v}.",
           "You can call me {v}.", "People call me {v}.", "This is {v} speaking.", "{v} is my name."),
          ("What is my name?", "Do you know my name?", "Who am I?", "What am I called?", "Tell me my name.",
           "What's my name?", "Can you say my name?", "Could you repeat my name?"), "Your name is {v}."),
    Topic("city", _town,
          ("I live in {v}.", "My home is in {v}.", "I am from {v} and still live there.", "I have a flat in {v}.",
           "My home town is {v}.", "{v} is where I live."),
          ("Where do I live?", "Which city do I live in?", "What city is my home?", "In which city do I live?",
           "Where is my home?", "Could you name the place I come home to?"), "You live in {v}.",
          ("I moved to {v}.", "I have moved to {v}.", "I live in {v} now."),
          ("My friend {f} lives in {v}.", "Where does {f} live?", "{f} lives in {v}.")),
    Topic("job", _words(*JOBS),
          ("I work as {a}.", "I am {a}.", "My job is {v}.", "I'm {a} by profession.", "I earn my money as {a}.",
           "I have been {a} for years."),
          ("What is my job?", "What do I do for a living?", "What do I work as?", "What's my job?",
           "What is my profession?", "What kind of work do I do?"), "You work as {a}.",
          ("I changed my job and am {a} now.", "I work as {a} now.", "I became {a}."),
          ("My friend {f} is {a}.", "What is the job of {f}?", "{f} works as {a}.")),
    Topic("hobby", _words(*HOBBIES),
          ("My hobby is {v}.", "I love {v}.", "I enjoy {v}.", "In my free time I like {v}.", "{v} is my hobby.",
           "I spend my weekends with {v}."),
          ("What is my hobby?", "What do I do in my free time?", "What do I enjoy?", "What's my hobby?",
           "Which hobby do I have?", "What do I like doing?"), "Your hobby is {v}.",
          ("My new hobby is {v}.", "Now my hobby is {v}."),
          ("My friend {f} loves {v}.", "What is the hobby of {f}?", "The hobby of {f} is {v}.")),
    Topic("favorite color", _words(*COLORS),
          ("My favorite color is {v}.", "I like {v} more than any other color.", "The color I like best is {v}.",
           "{v} is my favorite color."),
          ("What is my favorite color?", "Which color do I like best?", "What color do I like?",
           "What's my favorite color?", "Of all colors, which one do I prefer?"),
          "Your favorite color is {v}.", ("My favorite color is {v} now.", "These days I like {v} best of all colors."),
          ("The favorite color of my friend {f} is {v}.", "What is the favorite color of {f}?",
           "The favorite color of {f} is {v}.")),
    Topic("pet", _words(*PETS),
          ("I have {a}.", "My pet is {a}.", "I keep {a} at home.", "I own {a}.", "At home I have {a}."),
          ("What pet do I have?", "Which animal do I have?", "What is my pet?", "What kind of pet do I own?",
           "What animal lives with me?"), "You have {a}.", (),
          ("My friend {f} has {a}.", "What pet does {f} have?", "{f} has {a}.")),
    Topic("dog's name", lambda rng: first_name(rng)[0],
          ("My dog is called {v}.", "The name of my dog is {v}.", "I call my dog {v}.", "My dog's name is {v}."),
          ("What is the name of my dog?", "What is my dog called?", "What's my dog's name?", "How do I call my dog?",
           "Which name did I give my dog?"), "Your dog is called {v}."),
    Topic("age", _number(10, 90),
          ("I am {v} years old.", "I'm {v} years old.", "My age is {v}.", "I turned {v} this year."),
          ("How old am I?", "What is my age?", "What's my age?", "How many years old am I?",
           "Do you recall my age?"), "You are {v} years old.", (),
          ("My friend {f} is {v} years old.", "How old is {f}?", "{f} is {v} years old.")),
    Topic("birthday", _words(*MONTHS),
          ("My birthday is in {v}.", "I was born in {v}.", "I have my birthday in {v}."),
          ("When is my birthday?", "In which month was I born?", "Which month is my birthday in?",
           "In what month is my birthday?", "Which month do I celebrate my birthday in?"),
          "Your birthday is in {v}.", (),
          ("My friend {f} was born in {v}.", "When was {f} born?", "{f} was born in {v}.")),
    Topic("favorite food", _words(*FOODS),
          ("My favorite food is {v}.", "The food I like best is {v}.", "I like to eat {v} most of all.",
           "{v} is my favorite food."),
          ("What is my favorite food?", "What do I like to eat?", "Which food do I like best?",
           "What's my favorite food?", "What would I love to eat tonight?"), "Your favorite food is {v}.",
          ("My favorite food is {v} now.", "These days my favorite food is {v}."),
          ("The favorite food of my friend {f} is {v}.", "What is the favorite food of {f}?",
           "The favorite food of {f} is {v}.")),
    Topic("favorite drink", _words(*DRINKS),
          ("My favorite drink is {v}.", "The drink I like best is {v}.", "I like to drink {v} most of all."),
          ("What is my favorite drink?", "What do I like to drink?", "Which drink do I like best?",
           "What would I love to drink now?"), "Your favorite drink is {v}."),
    Topic("sister's name", _woman,
          ("My sister is called {v}.", "I have a sister called {v}.", "The name of my sister is {v}.",
           "My sister's name is {v}."),
          ("What is the name of my sister?", "What is my sister called?", "What's my sister's name?",
           "Which name does my sister have?"), "Your sister is called {v}."),
    Topic("car color", _words(*COLORS),
          ("My car is {v}.", "I drive a car that is {v}.", "The color of my car is {v}."),
          ("What color is my car?", "What is the color of my car?", "Which color does my car have?",
           "How is my car painted?"), "Your car is {v}.", ("I painted my car {v}.", "My car is {v} now.")),
    Topic("number to remember", _number(10, 9999),
          ("Remember the number {v}.", "Please remember the number {v}.", "The number to remember is {v}.",
           "Keep the number {v} in mind."),
          ("What number did I give you?", "Which number did you have to remember?", "What was the number?",
           "What is the number?", "Please repeat the number I gave you."), "The number is {v}.",
          ("The number has changed to {v}.", "Now the number is {v}.")),
    Topic("code word", _code_word,
          ("The code word is {v}.", "Our code word is {v}.", "Remember the code word {v}.", "The secret word is {v}."),
          ("What is the code word?", "What was the code word?", "Tell me the code word.",
           "Which word is the code word?", "Could you repeat the code word?"), "The code word is {v}.",
          ("The code word is {v} now.", "The new code word is {v}.")),
    Topic("keys", _words(*PLACES),
          ("I left my keys {v}.", "My keys are {v}.", "I put my keys {v}."),
          ("Where are my keys?", "Where did I put my keys?", "Where did I leave my keys?",
           "I am looking for my keys. Where can they be?"), "Your keys are {v}.",
          ("I put my keys {v} now.", "My keys are {v} now.")),
    Topic("meeting", _hour,
          ("My meeting is at {v}.", "I have a meeting at {v}.", "The meeting starts at {v}."),
          ("When is my meeting?", "At what time is my meeting?", "What time is the meeting?",
           "By what hour must I be at the meeting?"), "Your meeting is at {v}.",
          ("The meeting was moved to {v}.", "The meeting is at {v} now.")),
    Topic("instrument", _words(*INSTRUMENTS),
          ("I play the {v}.", "My instrument is the {v}.", "I practice the {v} every day."),
          ("What instrument do I play?", "Which instrument do I play?", "What is my instrument?",
           "Which instrument do I practice?"), "You play the {v}.", (),
          ("My friend {f} plays the {v}.", "What instrument does {f} play?", "{f} plays the {v}.")),
    Topic("language", _words(*LANGUAGES),
          ("I am learning {v}.", "I study {v}.", "I take lessons in {v}."),
          ("What language am I learning?", "Which language do I study?", "What language do I take lessons in?",
           "Which language are my lessons in?"), "You are learning {v}."),
    Topic("teacher's name", somebody,
          ("My teacher is {v}.", "My teacher is called {v}.", "The name of my teacher is {v}."),
          ("Who is my teacher?", "What is my teacher called?", "What is the name of my teacher?",
           "Who teaches me?"), "Your teacher is {v}."),
)
