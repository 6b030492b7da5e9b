"""Short texts with a label: the sentiment of a review, the topic of a sentence."""

from __future__ import annotations

from random import Random

from ..items import Item, upper_first

PRODUCTS = {
    "movie": ("plot", "acting", "music", "ending"), "book": ("story", "style", "cover", "last chapter"),
    "phone": ("screen", "battery", "camera", "sound"), "hotel": ("room", "breakfast", "staff", "view"),
    "restaurant": ("food", "service", "menu", "dessert"), "game": ("story", "sound", "controls", "first level"),
    "lamp": ("light", "switch", "design", "price"), "bike": ("saddle", "brake", "frame", "price"),
    "coffee": ("taste", "smell", "price", "packaging"), "concert": ("band", "sound", "singer", "crowd"),
    "course": ("teacher", "pace", "material", "homework"), "jacket": ("fit", "color", "zipper", "fabric"),
    "laptop": ("keyboard", "screen", "speed", "battery"), "train ride": ("seat", "view", "service", "speed"),
    "museum": ("guide", "collection", "shop", "building"), "pizza": ("crust", "sauce", "cheese", "delivery"),
}
GOOD = ("great", "wonderful", "excellent", "lovely", "amazing", "fantastic", "superb", "delightful", "perfect",
        "very good", "brilliant", "better than I hoped", "impressive", "a real joy", "good", "nice", "beautiful",
        "pleasant", "outstanding", "charming", "fresh", "clean", "friendly", "comfortable", "tasty", "fast",
        "reliable", "fun", "smooth", "clever", "warm", "bright", "well made", "just right", "a pleasure",
        "worth the price", "exciting", "elegant", "first class")
BAD = ("terrible", "awful", "bad", "boring", "horrible", "poor", "disappointing", "dreadful", "a real mess",
       "worse than I feared", "useless", "very weak", "annoying", "a letdown", "ugly", "cold", "dirty", "slow",
       "broken", "rude", "noisy", "cheap", "dull", "stale", "bland", "uncomfortable", "unreliable", "sad",
       "full of problems", "much too expensive", "tiring", "confusing", "badly made", "a disaster", "a waste of money",
       "nasty", "unfriendly", "not good", "second rate")
BOTH_SENTENCES = ("The {x} was {w}.", "I found the {x} {w}.", "What can I say, the {x} is {w}.",
                  "The {x} is {w} and so is the {y}.", "The {p} was {w}.", "This {p} is {w}.",
                  "My friends say the {p} is {w}, and they are right.", "From the start the {p} was {w}.",
                  "The {x} of this {p} is {w}.", "A {p} with a {x} that is {w}.", "The {x} was {w} and {v}.",
                  "{w} {x}, {v} {y}.", "Such a {p}: {w} and {v}.", "We thought the {p} was {w}.")
GOOD_SENTENCES = ("I loved this {p}.", "I would buy it again.", "I enjoyed every minute.", "The best {p} in years.",
                  "I am very happy with this {p}.", "I recommend it to everyone.", "Five stars from me.",
                  "It made my day.", "I can't wait to come back.", "I smiled the whole time.",
                  "Worth every penny.", "I really like the {x}.", "I love the {x}!", "I loved it!",
                  "What a great {p}!", "We had a wonderful time.", "Everyone should try it.", "It works very well.")
BAD_SENTENCES = ("I hated this {p}.", "I want my money back.", "A waste of time.", "The worst {p} in years.",
                 "I am very unhappy with this {p}.", "I would not recommend it to anyone.", "One star from me.",
                 "It ruined my day.", "Never again.", "I was bored the whole time.", "Not worth the money.",
                 "It broke after a day.", "I hated it!", "What a terrible {p}!", "We left early.", "Stay away.",
                 "It does not work at all.",
                 "I really dislike the {x}.")

TOPICS = {
    "sports": (("team", "striker", "runner", "coach", "goalkeeper", "champion"),
               ("won the match", "scored two goals", "lost the final", "broke the record", "trained for the cup",
                "played in the stadium")),
    "science": (("scientist", "researcher", "chemist", "astronomer", "physicist", "biologist"),
                ("measured the cells", "found a new star", "published the experiment", "tested the theory",
                 "studied the molecule", "looked through the telescope")),
    "food": (("cook", "baker", "chef", "waiter", "grandmother", "pastry cook"),
             ("baked fresh bread", "tasted the soup", "added more salt", "cooked pasta with cheese",
              "served the salad", "made an apple pie")),
    "travel": (("tourist", "pilot", "guide", "traveler", "passenger", "hiker"),
               ("booked a flight", "missed the train", "packed the suitcase", "visited the island",
                "checked into the hotel", "showed the passport")),
    "music": (("singer", "band", "pianist", "orchestra", "drummer", "composer"),
              ("played a new song", "recorded the album", "practised the melody", "tuned the guitar",
               "sang in the choir", "gave a concert")),
    "technology": (("programmer", "engineer", "company", "developer", "robot maker", "startup"),
                   ("released new software", "fixed the bug", "built a faster chip", "updated the app",
                    "repaired the computer", "tested the robot")),
    "weather": (("storm", "rain", "snow", "wind", "fog", "heat wave"),
                ("reached the coast", "covered the hills", "lasted all night", "closed the roads",
                 "moved to the north", "will end tomorrow")),
    "business": (("bank", "shop owner", "investor", "manager", "trader", "factory"),
                 ("raised its prices", "sold the shares", "reported a profit", "signed the contract",
                  "hired new workers", "opened a second store")),
}
WHEN = ("", "", "Yesterday ", "Last week ", "This morning ", "On Monday ", "After a long wait ")
ENDS = ("", "", " again", " for the first time", " with great care", " in the city", " this year")
SENTIMENT_LABELS = ((("positive", "negative"), 6), (("Positive", "Negative"), 2), (("good", "bad"), 1))
MARKS = ("alpha", "beta", "red", "blue", "A", "B", "cat", "dog", "yes", "no", "left", "right", "1", "2", "x", "y")


def review(rng: Random, good: bool) -> str:
    """One or two sentences that agree with each other."""
    product = rng.choice(list(PRODUCTS))
    first, second = rng.sample(PRODUCTS[product], 2)
    words, more = rng.sample(GOOD if good else BAD, 2)
    shared = rng.choice(BOTH_SENTENCES)
    own = rng.choice(GOOD_SENTENCES if good else BAD_SENTENCES)
    parts = rng.choice(((shared,), (own, shared), (shared, own), (shared, own)))
    return " ".join(upper_first(p.format(p=product, x=first, y=second, w=words, v=more)) for p in parts)


def sentiment(rng: Random, labels: tuple[str, str] | None = None) -> Item:
    """labels: the words for good and bad; drawn from the usual ones if not given."""
    good = rng.random() < 0.5
    text = review(rng, good)
    labels = labels or ("positive", "negative")
    short = labels[not good]
    ask = rng.choice(("Is this review {a} or {b}? {t}", "Classify this review as {a} or {b}: {t}",
                      "What is the sentiment of this review, {a} or {b}? {t}",
                      "Review: {t}\nIs it {a} or {b}?")).format(t=text, a=labels[0], b=labels[1])
    return Item(f"review/{text}", ask, short, f"The review is {short}.", text,
                rng.choice((("Review", "Sentiment"), ("Review", "Sentiment"), ("Text", "Sentiment"),
                            ("Text", "Label"), ("Comment", "Sentiment"))), labels)


def mixed(rng: Random) -> Item:
    """A review that says both; its label is a coin toss, so a calibrated model is unsure."""
    product = rng.choice(list(PRODUCTS))
    x, y = rng.sample(PRODUCTS[product], 2)
    text = f"The {x} was {rng.choice(GOOD)}, but the {y} was {rng.choice(BAD)}."
    if rng.random() < 0.5:
        text = f"The {x} was {rng.choice(BAD)}, but the {y} was {rng.choice(GOOD)}."
    short = rng.choice(("positive", "negative"))
    return Item(f"review/{text}", f"Is this review positive or negative? {text}", short, f"The review is {short}.",
                text, ("Review", "Sentiment"), ("positive", "negative"))


def topic(rng: Random) -> Item:
    name = rng.choice(list(TOPICS))
    who, did = (rng.choice(words) for words in TOPICS[name])
    when = rng.choice(WHEN)
    text = upper_first(f"{when}the {who} {did}{rng.choice(ENDS)}.")
    ask = rng.choice(("What is the topic of this sentence? {t}", "Which topic is this about? {t}",
                      "Classify the topic: {t}")).format(t=text)
    return Item(f"topic/{text}", ask, name, f"The topic is {name}.", text,
                rng.choice((("Text", "Topic"), ("Sentence", "Topic"), ("Headline", "Topic"))), tuple(TOPICS))


def label_words(rng: Random) -> tuple[str, str]:
    """Words for good and bad: mostly the usual ones, now and then any two, which only the examples explain."""
    if rng.random() < 0.2:
        first, second = rng.sample(MARKS, 2)
        return first, second
    return rng.choices([pair for pair, _ in SENTIMENT_LABELS], [n for _, n in SENTIMENT_LABELS])[0]
