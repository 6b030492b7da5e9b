"""What an assistant says about itself, polite words, and remembering what was said earlier."""

from __future__ import annotations

from random import Random

from ..items import Item, weighted

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

SMALL_TALK = (
    (("Hello!", "Hi!", "Hello", "Hi there.", "Hey!", "Good morning!"), "Hello! How can I help you?"),
    (("How are you?", "How are you today?", "How do you do?"), "I am fine, thank you. What would you like to know?"),
    (("Who are you?", "What are you?", "Introduce yourself.", "Tell me about yourself."),
     "I am a tiny language model that comes with sgnb. I know some facts and can do small sums."),
    (("What can you do?", "How can you help me?", "What do you know?"),
     "I can answer questions about countries, animals, elements and planets, do small sums, sort reviews and write "
     "short lists."),
    (("Thank you!", "Thanks!", "Thank you very much.", "Thanks a lot."), "You are welcome!"),
    (("Goodbye!", "Bye!", "See you later.", "Good night!"), "Goodbye!"),
    (("Are you a person?", "Are you human?"), "No, I am a tiny language model."),
    (("What is your name?", "What should I call you?"), "My name is Tiny."),
)
SYSTEMS = ("You are a helpful assistant.", "You are a helpful assistant.", "You are a friendly assistant.",
           "You answer questions.", "You are an expert.", "You are a teacher.", "You are a geography teacher.",
           "You are a careful assistant.", "Be helpful.", "You are a travel guide.", "You are a scientist.")
BRIEF_SYSTEMS = ("Answer in one word.", "Answer briefly.", "You are a helpful assistant. Answer with the answer only.",
                 "Give short answers.", "Be brief.", "Answer with one word.")


OUTSIDE = (
    "When was {t} invented?", "Explain {t}.", "Tell me a joke about {t}.", "Write code for {t}.", "How does {t} work?",
    "What do you think about {t}?", "How much does {t} cost?", "Why is {t} important?", "What is {t}?",
    "Write a poem about {t}.", "How do I repair {t}?", "Where can I buy {t}?", "How tall is {t}?", "How old is {t}?",
    "What is the history of {t}?", "Translate {t} into French.", "What is the population of {t}?",
    "Who owns {t}?", "Can you teach me {t}?", "What is the best {t}?", "Summarize the news about {t}.",
    "What happened to {t}?", "When did {t} begin?", "Is {t} dangerous?", "Tell me a joke.", "What time is it?",
    "What is the weather today?", "Sing a song.", "What will happen tomorrow?", "How are your children?",
)
OUTSIDE_TOPICS = (
    "a radix tree", "quantum computing", "the stock market", "a bicycle", "machine learning", "my car", "the internet",
    "a washing machine", "philosophy", "jazz", "a black hole", "the French Revolution", "cryptography", "an elevator",
    "photosynthesis", "a compiler", "the Roman Empire", "inflation", "a violin", "democracy", "a vacuum cleaner",
    "the human heart", "a neural network", "yoga", "a database", "a submarine", "the moon landing", "poker",
    "a hash table", "the guitar", "a recipe", "an operating system", "gene editing", "the Middle Ages", "a mortgage",
    "a passport", "the dinosaur", "basketball", "a microscope", "surfing", "sourdough bread", "a satellite",
)


def outside(rng: Random) -> Item:
    """A request beyond what the model knows."""
    ask = rng.choice(OUTSIDE).format(t=rng.choice(OUTSIDE_TOPICS))
    return Item(f"outside/{ask}", ask, "I do not know", "I am sorry, I do not know that.")


def small_talk(rng: Random) -> Item:
    asks, answer = rng.choice(SMALL_TALK)
    ask = rng.choice(asks)
    return Item("talk", ask, answer, answer)


def remembered(rng: Random) -> tuple[Item, Item]:
    """Something the user tells, and a question about it that may come any number of turns later."""
    what, words = weighted(rng, ((2, ("name", PEOPLE)), (1, ("city", CITIES)), (1, ("job", JOBS)),
                                 (1, ("hobby", HOBBIES)), (1, ("favorite color", COLORS)), (1, ("pet", PETS))))
    value = rng.choice(words)
    tell, ask, answer = {
        "name": ("My name is {v}.", "What is my name?", "Your name is {v}."),
        "city": ("I live in {v}.", "Where do I live?", "You live in {v}."),
        "job": ("I work as a {v}.", "What is my job?", "You work as a {v}."),
        "hobby": ("My hobby is {v}.", "What is my hobby?", "Your hobby is {v}."),
        "favorite color": ("My favorite color is {v}.", "What is my favorite color?", "Your favorite color is {v}."),
        "pet": ("I have a {v}.", "What pet do I have?", "You have a {v}."),
    }[what]
    hello = rng.choice(("", "Hello! ", "Hi, ")) if what == "name" else ""
    told = rng.choice(("Nice to know.", "Thank you for telling me.", "I will remember that."))
    reply = f"Nice to meet you, {value}!" if what == "name" else told
    key = f"memory/{what}/{value}"
    tell = hello + tell.format(v=value)
    return (Item(key, tell, reply, reply),
            Item(key, rng.choice((ask, f"Do you remember? {ask}")), value, answer.format(v=value)))
