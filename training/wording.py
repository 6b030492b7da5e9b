"""The wording engine: how a kind of fact turns into requests.

A `Relation` holds its clauses in grammatical forms: noun phrases, direct questions, clauses as they stand after "tell
me", statements, questions that say "it" or "there", key words. `Frames` holds what may stand around each form. Every
combination of the two is a wording; `wordings` makes them all once. Templates start with a small letter; frames may
hold alternatives in brackets, of which one is taken each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from random import Random

from .alternatives import expand
from .items import tidy, upper_first

PREPOSITIONS = (" in ", " on ")
SUBJECT_VERBS = [[verb] for verb in ("has", "uses", "speaks", "pays", "comes", "wrote", "means", "starts")]
"""After "which ..." they make a question that may stand in another sentence as it is."""
OPEN_STARTS = ("what", "who", "where", "which", "how", "in which", "in what", "on which", "by whom", "with what")


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """`facts` maps an entity {e} to its value {v}; {b} is the entity without its article.

    about: the kind of entity, a key of the leads. noun: noun phrases that mean the value. ask: direct questions.
    clause: what may follow "tell me". say: statements; the first is how an assistant answers. then: questions about
    an entity that was just named. terse: key words. check: yes-or-no questions.
    back, back_noun, back_say: from a value that only one entity has to the entity. some: asks for any entity of a
    value; the first of the table is the answer. unseen, unseen_back: questions that only the evaluation asks.
    who, back_who: what asks for the value and for the entity. near: values that are not
    wrong enough to ask for in a yes-or-no question.
    """

    name: str
    about: str
    facts: dict[str, str]
    noun: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    clause: tuple[str, ...] = ()
    say: tuple[str, ...] = ()
    then: tuple[str, ...] = ()
    terse: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    back_noun: tuple[str, ...] = ()
    back_say: str = ""
    some: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    unseen_back: tuple[str, ...] = ()
    who: str = "what"
    back_who: str = "what"
    near: Callable[[str, str], bool] = field(default=lambda entity, value: False)


def relation(name: str, about: str, facts: dict[str, str], text: str, *, who: str = "what", back_who: str = "what",
             near: Callable[[str, str], bool] = lambda entity, value: False) -> Relation:
    """A relation whose clauses are written as lines `form: clause / clause`; a line without a form goes on."""
    forms: dict[str, str] = {}
    at = ""
    for line in text.strip().splitlines():
        head, colon, rest = line.partition(": ")
        if colon and head in Relation.__dataclass_fields__:
            at, line = head, rest
        forms[at] = f"{forms.get(at, '')} {line.strip()}".strip()

    def of(form: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in forms[form].split(" / ")) if form in forms else ()

    return Relation(name, about, facts, noun=of("noun"), ask=of("ask"), clause=of("clause"), say=of("say"),
                    then=of("then"), terse=of("terse"), check=of("check"), back=of("back"), back_noun=of("back_noun"),
                    back_say=forms.get("back_say", ""), some=of("some"), unseen=of("unseen"),
                    unseen_back=of("unseen_back"), who=who, back_who=back_who, near=near)


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """What may stand around a form: {p} noun phrase, {i} clause, {g} statement without its end, {t} question with
    "it", {e} entity, {s} statement, {w} what or who. before and after go around a direct question."""

    noun: tuple[str, ...]
    clause: tuple[str, ...]
    gap: tuple[str, ...]
    leads: dict[str, tuple[str, ...]]
    before: tuple[str, ...]
    after: tuple[str, ...]
    check: tuple[str, ...]


SEEN = Frames(
    noun=("{w} is {p}?", "{w} is {p}?", "{w} is {p}?", "{w}'s {p}?", "{w}'s {p}?", "{w}s {p}?", "{p}?", "{p}",
          "name {p}.", "tell me {p}.", "please tell me {p}.", "do you know {p}?", "can you tell me {p}?",
          "I would like to know {p}.", "give me {p}.", "could you tell me {p}?", "please name {p}.",
          "say {w} {p} is.", "do you know {w} {p} is?", "I am looking for {p}.", "can you name {p}?", "{p}, please.",
          "I need {p}.", "state {p}.", "{w} would be {p}?", "any idea {w} {p} is?", "{p} is {w}?", "let me know {p}.",
          "{w} might {p} be?", "so {w} is {p}?", "and {w} is {p}?", "{w} is {p} again?", "{w} is {p} called?",
          "I am trying to find out {w} {p} is.", "I wonder {w} {p} is.", "I can't remember {p}.",
          "it is about {p}. {W} is it?", "my question is about {p}.", "my homework asks for {p}.",
          "we are guessing {p}.",
          "my teacher wants {p}.", "does anyone know {p}?", "you surely know {p}.", "please look up {p}.",
          "{p}: {w} is it?", "could you name {p} for me?", "I am not sure about {p}.", "answer with {p}.",
          "do you [happen to |by any chance |maybe |]know {p}?", "[would|do] you [maybe |perhaps |]know {w} {p} is?",
          "[can|could|will] you [please |kindly |just |quickly |]tell [me|us] {w} {p} is[|, please]?",
          "[can|could|would|will] you [please |kindly |just |quickly |]give [me|us] {p}[|, please]?",
          "[please |kindly |just |]tell [me|us] {w} {p} is[|, please|, if you can|, thank you].",
          "[I'd|we'd|I would] [like|love] to [learn|hear|find out|be told] {w} {p} is.",
          "[I want|we want|I wish|I have|we have|I would like|we are trying] to [know|learn|find out] {w} {p} is.",
          "[my boss|my friend|my mother|my father|someone|a customer|a student] asked [me|us] {w} {p} is.",
          "[can|could] [anyone|anybody|someone|somebody] [here |]tell [me|us] {w} {p} is?",
          "[I|we] [don't|do not] know {w} {p} is. [Do you|Can you tell me|Any idea|Can you help]?",
          "[I am|I'm|we are] [writing|preparing|working on] [a report|a talk|a quiz|a test|a lesson], so {w} is {p}?",
          "for [a report|a talk|my work|a quiz|a poster|an article], [I need|I want|I am looking for] {p}.",
          "{w} is {p}, [please|do you think|would you say]?",
          "[question|wanted|searched|looking for|needed|find|look up|show me|help me find|search]: {p}.",
          "[find|look up|show me|list|write down|get me|fetch me|help me find|search for] {p}[|, please].",
          "{p} - [do you know it|{w} is it|can you tell me|any idea|please]?",
          "[now|next|then|also|first|finally|OK, now|OK, next][|,|:] {p}[|, please][.|?]",
          "[guess|say|write|type] {w} {p} is.", "{w} [exactly|actually|really] is {p}?",
          "{w} [was|is] {p}[, again|, once more| again]?", "[it's|this is] about {p}: [can you help|do you know it]?",
          "if [somebody|a friend|my boss|the teacher] asks [me |]for {p}, what [do|should] I [say|answer]?"),
    clause=("do you know {i}?", "can you tell me {i}?", "could you tell me {i}?", "please tell me {i}.",
            "tell me {i}.", "I would like to know {i}.", "I'd like to know {i}.", "I want to know {i}.",
            "my daughter wants to know {i}.", "my son keeps asking {i}.", "my kid asks {i}.", "I wonder {i}.",
            "I was wondering {i}.", "any idea {i}?", "do you have any idea {i}?", "I am not sure {i}.",
            "I can't remember {i}.", "do you happen to know {i}?", "I have to find out {i}.", "say {i}.",
            "can you say {i}?", "my homework is to find out {i}.", "we are trying to guess {i}.",
            "in the quiz they asked {i}.", "I have always wondered {i}.", "may I ask {i}?", "I am curious {i}.",
            "please let me know {i}.", "explain to me {i}.", "tell my class {i}.", "I should know {i}, but I don't.",
            "does anybody know {i}?", "no idea {i}. Do you know?", "a friend asked me {i}.",
            "the question is {i}.", "do you [by any chance |maybe |perhaps |]know {i}[|, please]?",
            "[can|could|would|will] you [please |kindly |just |quickly |]tell [me|us] {i}[|, please]?",
            "[please |kindly |just |]tell [me|us] {i}[|, please|, if you can].",
            "[I'd|we'd|I would] [like|love] to [learn|hear|find out|be told] {i}.",
            "[I want|we want|I have|we have|we are trying|I am trying] to [know|learn|find out|remember] {i}.",
            "[my boss|my neighbor|my mother|my father|someone|a customer|a student] asked [me|us] {i}.",
            "[can|could] [anyone|anybody|someone|somebody] [here |]tell [me|us] {i}?",
            "[I|we] [don't|do not] [know|remember] {i}. [Do you|Can you tell me|Any idea|Can you help]?",
            "for [a report|a talk|my work|a quiz|a poster|an article] [I need|I want|I have] to know {i}.",
            "[I am|I'm] [asking myself|thinking about|not certain|trying to remember|looking up] {i}.",
            "[find out|write|look up|guess|state|show me] {i}[|, please].", "is it known {i}?",
            "it would [help|be nice|be good] to know {i}.", "[what I want to know is|what interests me is] {i}.",
            "if [somebody|a friend|my boss|the teacher] asks [me |]{i}, what [do|should] I [say|answer]?"),
    gap=("{g} ...", "{g}...", "{g} ___.", "{g} ____", "{g}?", "{g}", "complete: {g}", "complete the sentence: {g}",
         "complete the sentence: {g} ...", "finish this: {g} ...", "finish the sentence: {g} ___.",
         "fill in the blank: {g} ___.", "fill in the gap: {g} ____.", "what is missing here? {G} ___.",
         "how does this go on? {G} ...", "{g} which one?", "continue: {g}", "what comes next: {g}",
         "[please |]complete [this|this sentence|the following|the line]: {g} [...|___|____]",
         "[please |]finish [this|this sentence|my sentence|the line]: {g} [...|___|____]",
         "[what|which word] [belongs|fits|goes] in the [blank|gap|empty place]? {G} ___."),
    leads={
        "": ("{e}: {t}?", "{e}: {t}?", "about {e}: {t}?", "speaking of {e}, {t}?", "I have a question about {e}. {T}?",
             "I have a question about {e}: {t}?", "take {e}. {T}?", "think of {e}. {T}?", "as for {e}, {t}?",
             "let's talk about {e}. {T}?", "I am reading about {e}. {T}?", "we are learning about {e} at school. {T}?",
             "one thing about {e}: {t}?", "tell me about {e}: {t}?", "you know {e}, {t}?", "{e} - {t}?",
             "I just heard of {e}. {T}?", "what about {e}, {t}?", "regarding {e}: {t}?",
             "[I am|I'm|we are] [writing|preparing|working on] [a report|a talk|a quiz|a lesson] [on|about] {e}. {T}?",
             "[another|a short|one more|a simple|my] question [on|about|concerning] {e}[: {t}|. {T}]?",
             "[somebody|my friend|our teacher|my sister|the news] [mentioned|talked about|told me about] {e}. {T}?",
             "[I would like|I want|we want] to [know|learn] more about {e}. {T}?", "when it comes to {e}, {t}?",
             "[here is something about|now to|next topic:|topic:|subject:] {e}. {T}?", "{t}? [About|It is about] {e}."),
        "country": ("I am going to {e} next month. {T}?", "we are flying to {e} in spring. {T}?",
                    "my sister lives in {e}. {T}?", "I am planning a trip to {e}. {T}?",
                    "my friend comes from {e}. {T}?",
                    "I just came back from {e}. {T}?", "our class is doing a project on {e}. {T}?",
                    "I have never been to {e}. {T}?", "I got a postcard from {e}. {T}?",
                    "we will move to {e} soon. {T}?",
                    "next week I travel to {e}. {T}?", "I want to visit {e}. {T}?", "before I go to {e}: {t}?",
                    "if I go to {e}, {t}?", "when I am in {e}, {t}?", "I met someone from {e}. {T}?",
                    "my flight goes to {e}. {T}?", "my uncle works in {e}. {T}?"),
        "animal": ("my daughter drew {e}. {T}?", "we saw a film about {e}. {T}?", "imagine {e}. {T}?",
                   "look, {e}! {T}?", "there is a picture of {e} in my book. {T}?",
                   "my son likes this animal: {e}. {T}?"),
        "animals": ("my daughter loves {e}. {T}?", "we saw a film about {e}. {T}?", "I like {e}. {T}?",
                    "my son is afraid of {e}. {T}?", "there are pictures of {e} in my book. {T}?"),
        "element": ("in chemistry we talk about {e}. {T}?", "I have a chemistry test on {e}. {T}?",
                    "my teacher showed us {e}. {T}?", "there is an element called {e}. {T}?",
                    "I am looking at {e} in the periodic table. {T}?"),
        "planet": ("I am looking at {e} through a telescope. {T}?", "we fly past {e}. {T}?",
                   "there is a planet called {e}. {T}?"),
        "book": ("I am reading {e}. {T}?", "I have just finished {e}. {T}?", "we read {e} at school. {T}?",
                 "there is {e} on the shelf. {T}?", "I love {e}. {T}?", "my favorite book is {e}. {T}?"),
        "city": ("I am going to {e} next week. {T}?", "my brother lives in {e}. {T}?", "we spent a day in {e}. {T}?",
                 "my train goes to {e}. {T}?"),
        "sight": ("I want to see {e}. {T}?", "I have a photo of {e}. {T}?", "we want to visit {e}. {T}?"),
    },
    before=("I was wondering, ", "just wondering: ", "for my homework: ", "tell me quickly, ", "my kid asks: ",
            "in a quiz I had this: ", "a question for you: ", "here is a question. ", "sorry to bother you, but ",
            "hi, ", "hey, ", "hello! ", "OK, ", "well, ", "so ", "next question: ", "let me ask you this: ",
            "trivia time: ", "my teacher asked: ", "my son wants to know: ", "somebody asked me: ", "and ",
            "I am doing a crossword. ", "we are playing a quiz. ", "help me with this one: ", "can you help? ",
            "please help me. ", "please, ", "now, ", "I am curious: ", "I am curious. ", "by the way, ",
            "let me test you: ", "question: ", "one more: ", "good morning. ", "listen, ", "tell me, ", "tell me: ",
            "say, ", "do you know this one? ", "I can't remember: ", "I have no idea: ", "my daughter asks, ",
            "on the test it said: ", "for a school project: ", "dumb question, but ", "easy one: ", "oh, ", "um, ",
            "my wife and I disagree. ", "could you help me? ", "I have a quick one: ", "be so kind and tell me: ",
            "[I am|I'm|we are] [writing|preparing|working on] [a report|a talk|a quiz|a test|a lesson], so ",
            "I need [this|it] for [my homework|a quiz|school|work|a report|a friend|a project][: |. ]",
            "[hi there|good evening|good afternoon|hello there|greetings|hey there|hi|hello][, |! |. ]",
            "[another|a short|one last|a simple|an easy|a small|my] question[: |. ]", "[help|please help|help me]! ",
            "[can|could] you [answer|help me with] this[?|, please?] ", "[thanks|great|perfect|good|nice][. |! |, ]",
            "[my wife|my boss|my neighbor|a friend|our guide|the teacher] asked me: ",
            "I [don't|do not] know this[: |. ]", "[I should know this|I am stuck|I need help][: |, |. ]",
            "[maybe|perhaps] you know: ", "[if you know|if you can|when you have a moment], tell me: "),
    after=("? Do you know?", "? Thanks.", "? Thanks!", "? Thank you.", "? Please help.", "? I keep forgetting.",
           "? Just curious.", "? Tell me.", "? Please tell me.", "? Can you tell me?", "? I have no idea.",
           "? It is for school.", "? I am not sure.", "? Any idea?", "? I would love to know.",
           "? I should know this.", ", please?", ", do you know?", ", by the way?", ", exactly?", " again?",
           ", actually?", ", then?", "??", " ?", "?!", ", thanks", " please", "? thx", "? I can't remember it.",
           "? Thank you [so much|very much|in advance|for your help].",
           "? [Cheers|Thanks in advance|Many thanks|Thanks a lot].",
           "? [I need it|I need this|It is|I ask] for [a report|a quiz|my homework|a friend|work|school|my talk].",
           "? [Do you happen to know|Can you help|Could you help me|Do you know that|Would you know]?",
           "? [I don't know|I do not know it|I am stuck|I often forget|My friend asked|I was asked that].",
           ", [if you know|do you happen to know|any idea|can you tell me|could you tell me]?"),
    check=("is it true that {s}?", "{s}, right?", "{s}, correct?", "{s}, true?", "{s}. Is that right?",
           "{s}. Is that true?", "am I right that {s}?", "I think {s}. Is that right?",
           "my friend says {s}. Is that true?",
           "is it correct that {s}?", "is it correct to say that {s}?", "would you say that {s}?", "{s}. Yes or no?",
           "yes or no: {s}?", "{s}, isn't that so?", "so {s}?", "{s}?", "I read that {s}. Is that correct?",
           "my teacher told us that {s}. Was she right?", "do you agree that {s}?", "is this right: {s}?",
           "is it a fact that {s}?", "check this for me: {s}. Is it true?", "is it really true that {s}?",
           "[do you think|would you agree|do you believe|is it so|is it certain|does it hold] that {s}?",
           "[can|could] you [confirm|tell me if it is true|say if it is true] that {s}?",
           "[I believe|I heard|I read|I was told|I am sure|I guess|I suppose|they say|people say|I think] [that |]{s}. "
           "[Is that right|Is that correct|Is it true|Correct|Right|True|Is it so|Am I right|Is that so|Do you agree]?",
           "{s}[, | - |: ][yes or no|agreed|is that so|is that right|is that true|am I right|is it true|do you agree]?",
           "[true or not|is this so|is this true|is it right|correct or not|agreed|do you agree|yes or no]: {s}[?|.]",
           "[tell me|say|I want to know|I wonder|please check|check|find out] [if|whether] {s}."),
)

UNSEEN = Frames(
    noun=("I forgot {p}. {W} is it?", "would you please tell me {w} {p} is?", "I need to know {p}.",
          "quick question: {w} is {p}?", "remind me {w} {p} is.", "it is on the tip of my tongue: {p}.",
          "{w} do the books give as {p}?", "I always mix up {p}. Help!", "would you be able to name {p}?"),
    clause=("settle this for us: {i}.", "my grandfather would love to hear {i}.", "nobody here remembers {i}. Do you?",
            "I bet you can tell us {i}.", "we have been arguing about {i}."),
    gap=("one word is lost: {g} [?]", "put in what belongs here: {g} (...)"),
    leads={"": ("my essay deals with {e}. {T}?", "suppose somebody mentions {e}. {T}?", "{T}? I mean {e}.")},
    before=("excuse me, ", "riddle me this: ", "I am writing an essay and have to ask: ", "here is one for you. ",
            "my grandmother would like to hear this: "),
    after=("? It has slipped my mind.", "? You would do me a favor.", ", if I may ask?"),
    check=("can I tell my son that {s}?", "I could swear that {s}. Am I mistaken or is it so?",
           "{s}, if I am not wrong?", "would it be right to write that {s}?"),
)
"""Wordings that only the evaluation uses."""


@dataclass(frozen=True, slots=True, eq=False)
class Wordings:
    """Complete templates by form; plain ones are single direct questions, which may take words before and after."""

    shares: list[float]
    forms: list[list[tuple[str, bool]]]

    def pick(self, rng: Random) -> tuple[str, bool]:
        text, plain = rng.choice(rng.choices(self.forms, cum_weights=self.shares)[0])
        return (expand(rng, text) if "|" in text else text), plain


@cache
def wordings(of: Relation, frames: Frames) -> Wordings:
    """Every request for the value of an entity."""
    plain = [f"{q}?" for q in ((*of.ask, *_contracted(of.ask)) if frames is SEEN else of.unseen)]
    nouns = [_put(f, of.who, p=p) for f in frames.noun for p in of.noun if _reads_well(f, p, of.who)]
    clauses = [_put(f, of.who, i=i) for f in frames.clause for i in of.clause]
    gaps = [_put(f, of.who, g=s.removesuffix(" {v}")) for f in frames.gap for s in of.say if _has_clear_gap(of, s)]
    leads = [_put(f, of.who, t=t) for f in leads_of(of.about, frames) for t in of.then]
    terse = [*of.terse, *(f"{t}?" for t in of.terse if "?" not in t)] if frames is SEEN else []
    return _weigh(((6, plain), (4, nouns), (3, clauses), (0.7, gaps), (2.5, leads), (1, terse)))


@cache
def back_wordings(of: Relation, frames: Frames) -> Wordings:
    """Every request for the entity that has a value."""
    plain = [f"{q}?" for q in ((*of.back, *_contracted(of.back)) if frames is SEEN else of.unseen_back)]
    nouns = [_put(f, of.back_who, p=p) for f in frames.noun for p in of.back_noun if _reads_well(f, p, of.back_who)]
    clauses = [_put(f, of.back_who, i=q) for f in frames.clause for q in of.back if q.split()[2:3] in SUBJECT_VERBS]
    said = of.back_say.removesuffix(" {e}")
    gaps = [_put(f, of.back_who, g=said) for f in frames.gap] if said != of.back_say else []
    return _weigh(((3, plain), (2, nouns), (1, clauses), (0.5, gaps)))


@cache
def check_wordings(of: Relation, frames: Frames) -> Wordings:
    """Every yes-or-no question; statements are the simple ones, without topics put first."""
    plain = [f"{q}?" for q in of.check] if frames is SEEN else []
    turned = [f"{_negated(q)}?" for q in of.check if frames is SEEN and _negated(q)]
    said = [_put(f, of.who, s=s) for f in frames.check for s in of.say]
    return _weigh(((5, plain), (0.3, turned), (4, said)))


def _contracted(questions: tuple[str, ...]) -> list[str]:
    """The questions that begin with "what is" and the like, shorter, with the apostrophe and without it."""
    starts = [q.split(" ", 2) for q in questions]
    return [f"{first}{s} {rest}" for first, verb, rest in (s for s in starts if len(s) == 3)
            if verb == "is" and first in ("what", "who", "where") for s in ("'s", "s")]


def leads_of(about: str, frames: Frames) -> tuple[str, ...]:
    return frames.leads[""] + frames.leads.get(about, ())


def _put(frame: str, who: str, **parts: str) -> str:
    """The frame with a clause in it, capital letters where a sentence starts; the entity is still to come."""
    capitals = {key.upper(): upper_first(part) for key, part in parts.items()}
    return frame.format(w=who, W=upper_first(who), e="{e}", **parts, **capitals)


def _reads_well(frame: str, phrase: str, who: str) -> bool:
    """Only short phrases for things that have a name are "called" something."""
    named = who == "what" and len(phrase.split()) < 5 and not {"name", "word", "number", "place"} & set(phrase.split())
    return named or not frame.endswith("called?")


def _has_clear_gap(of: Relation, said: str) -> bool:
    """Whether the statement ends in its value and only one relation could fill the gap."""
    return said.endswith(" {v}") and (said not in ("{e} is {v}", "{e} is a {v}") or of.about in ("record", "person"))


def _negated(question: str) -> str:
    first, _, rest = question.partition(" ")
    return {"is": f"isn't {rest}", "are": f"aren't {rest}", "does": f"doesn't {rest}", "do": f"don't {rest}",
            "did": f"didn't {rest}"}.get(first, "")


def _weigh(table: tuple[tuple[float, list[str]], ...]) -> Wordings:
    kept = [(weight, forms) for weight, forms in table if forms]
    marked = [[(text, _is_plain(text)) for text in forms] for _, forms in kept]
    return Wordings(list(accumulate(weight for weight, _ in kept)), marked)


def _is_plain(text: str) -> bool:
    return text.startswith(OPEN_STARTS) and text.endswith("?") and ". " not in text


@cache
def names(entity: str) -> dict[str, str]:
    """The ways a template may show an entity: {e} as it is, {b} without article, {x} {y} split at a preposition."""
    bare = entity
    for article in ("the ", "a ", "an "):
        bare = bare.removeprefix(article)
    for preposition in PREPOSITIONS:
        first, found, last = entity.partition(preposition)
        if found:
            return {"e": entity, "b": bare, "x": first, "y": f"{found.strip()} {last}", "z": last}
    return {"e": entity, "b": bare}


ALIASES = {
    "the United Kingdom": ("the UK", "the UK", "Britain", "Great Britain"),
    "the United States": ("the USA", "the US", "America", "the United States of America"),
    "the Netherlands": ("Holland",),
    "the Czech Republic": ("Czechia",),
    "aluminium": ("aluminum",), "sulfur": ("sulphur",),
    "the airplane": ("the aeroplane", "the plane"), "the motor car": ("the car", "the automobile"),
    "the light bulb": ("the lightbulb", "the electric light bulb"), "the World Wide Web": ("the Web", "the WWW"),
    "the television": ("television", "the TV"), "the radio": ("radio",), "the telephone": ("the phone",),
    "the theory of relativity": ("relativity",), "the law of gravity": ("gravity",),
    "the programming language Python": ("Python",), "the language Esperanto": ("Esperanto",),
    "Nineteen Eighty-Four": ("1984",), "Alice in Wonderland": ("Alice's Adventures in Wonderland",),
    "the dwarf planet Pluto": ("Pluto",), "the planet Uranus": ("Uranus",),
    "New York": ("New York City",),
    "a hippo": ("a hippopotamus",), "a rhino": ("a rhinoceros",),
    "hippos": ("hippopotamuses",), "rhinos": ("rhinoceroses",),
}


def called(rng: Random, of: Relation, entity: str) -> str:
    """The entity, now and then by another of its names."""
    if rng.random() < 0.3:
        if entity in ALIASES:
            return rng.choice(ALIASES[entity])
        if of.about == "book" and not entity.startswith("the "):
            return rng.choice(("the book {}", "\"{}\"", "'{}'", "the book \"{}\"")).format(entity)
    return entity


def write(template: str, entity: str, value: str = "") -> str:
    """The template about an entity, without a capital letter at its start."""
    text = template.format_map(names(entity) | {"v": value} if "{v}" in template else names(entity))
    text = text.replace("D.C..", "D.C.") if "D.C.." in text else text
    return text.replace("s's ", "s' ") if "s's " in text else text


def inner(template: str, entity: str, value: str) -> str:
    """A statement as it stands after a comma."""
    return tidy(write(template, entity, value) + ".")


def sentence(template: str, entity: str, value: str) -> str:
    """A statement with its capital letter and its full stop."""
    return tidy(upper_first(write(template, entity, value)) + ".")


def request(rng: Random, core: str, plain: bool, frames: Frames = SEEN) -> str:
    """The core as somebody may type it: often as it is, now and then with words before it and after it."""
    if not plain or (frames is SEEN and rng.random() < 0.55):
        return upper_first(core)
    if rng.random() < 0.6:
        before = expand(rng, rng.choice(frames.before))
        core = before + (upper_first(core) if before.endswith((". ", "! ", "? ")) else core)
    if rng.random() < 0.5:
        core = core.removesuffix("?") + expand(rng, rng.choice(frames.after))
    return upper_first(core)


@cache
def values(of: Relation) -> tuple[str, ...]:
    return tuple(sorted(set(of.facts.values())))


@cache
def unique(of: Relation) -> tuple[str, ...]:
    """The entities that nothing else shares its value with."""
    counts = Counter(of.facts.values())
    return tuple(e for e, v in of.facts.items() if counts[v] == 1)


@cache
def shared(of: Relation) -> dict[str, str]:
    """For each value that several entities have, the first of them."""
    counts = Counter(of.facts.values())
    return {v: next(e for e, w in of.facts.items() if w == v) for v in values(of) if counts[v] > 1}


@cache
def wrong(of: Relation, entity: str) -> tuple[str, ...]:
    """The values that are surely false of the entity; a peso is never a wrong answer where another peso is right."""
    truth = of.facts[entity]
    same = truth.split()[-1] if of.name == "currency" else ""
    return tuple(v for v in values(of) if v != truth and v.split()[-1] != same and not of.near(entity, v))


@cache
def doubtful(of: Relation) -> tuple[str, ...]:
    """The entities of which something is surely false."""
    return tuple(entity for entity in of.facts if wrong(of, entity))
