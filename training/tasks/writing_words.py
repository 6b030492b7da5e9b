"""How people ask for tips, for points, for a sentence in another form, for a summary or a title.

{t} a topic as a gerund, {b} the same after "to", {w} what is wanted ("three good tips"), {s} a subject as a gerund,
{y} a name of it that may also be a plural, {n} a count;
{l} is {w} or a list of it. UNSEEN_ ones are for the evaluation only.
"""

from __future__ import annotations

_NOUN = "[tips|tips|tips|tips|ideas|ideas|suggestions|hints|recommendations|pieces of advice|tricks|rules|points]"
_KIND = "[|||good |useful |simple |practical |short |easy |quick |helpful |important |basic ]"
COUNTED = f"[|||exactly |just |only ]{{n}} {_KIND}{_NOUN}"
UNCOUNTED = f"[||some |a few |several |a couple of ]{_KIND}{_NOUN}"
COUNTED_LIST = f"[{COUNTED}|{COUNTED}|a [short |simple |numbered |]list [of|with] {{n}} {_KIND}{_NOUN}]"
UNCOUNTED_LIST = f"[{UNCOUNTED}|[|some |a bit of |a little ]{_KIND}advice|a [short |simple |numbered |]list of " \
                 f"{_KIND}{_NOUN}]"
"""What is wanted, as a plural; the lists may also be singular."""

_FOR = "[for|for|on|about|regarding|when it comes to]"
_GIVE = "[give|give me|list|write|name|show me|tell me|share|suggest|offer|send me|write down|collect|make|prepare]"
_HOW = "[how do I|how can I|how should I|how does one|how do you|how do people|how to|what is the best way to|" \
       "how might I|how could I|what should I do to|what can I do to|what do I need to do to|is there a good way " \
       "to] {b}?"
_TAIL = "[{L}, please.|{L}.|Give me {l}.|I need {l}.|I would like {l}.|Please give me {l}.|Can you give me {l}?|" \
        "Do you have {l}?|List {l}.|Name {l}.|Tell me {l}.|I am looking for {l}.|Could you list {l}?|Share {l}, " \
        "please.|" \
        "Write {l}.|{L}?|Help me with {l}.|I want {l}.|I could use {l}.]"
_WHO = "[my friend|my sister|my brother|a neighbor|my mother|my father|my son|my daughter|a colleague|my class|someone]"
LIST_ASKS = (
    f"{_GIVE} {{l}} {_FOR} {{t}}.", f"please {_GIVE} {{l}} {_FOR} {{t}}.", f"{_GIVE} {{l}} {_FOR} {{t}}, please.",
    f"[can|could|would|will] you [please |kindly |quickly |]{_GIVE} {{l}} {_FOR} {{t}}?",
    f"what are {{w}} {_FOR} {{t}}?", f"do you [have|know] {{w}} {_FOR} {{t}}?", f"{{w}} {_FOR} {{t}}[|.|?|, please.|:]",
    f"[I need|I want|I would like|I'd like|I am looking for|we need|I could use|I want to hear|I want to read|may "
    f"I have|"
    f"can I have|could I get|can I get|let me have|let me hear] {{l}} {_FOR} {{t}}.",
    f"[are there|have you got|how about|what about] {{w}} {_FOR} {{t}}?", f"{_HOW} {_TAIL}", f"{_HOW} {_TAIL}",
    f"[I want|I would like|I plan|I hope|I am trying|I need|I have decided|I am going|we want|I wish] to {{b}}. "
    f"{_TAIL}",
    "I [want|would like|am trying|need] to {b}, so [give me|I need|please list|tell me|suggest] {l}.",
    f"{_WHO} [wants|would like|plans|is trying|hopes|needs] to {{b}}. {_TAIL}",
    f"{_WHO} [needs|asks for|is looking for|asked me for|wants] {{l}} {_FOR} {{t}}.",
    f"[what should I know about|what must I know about|what should I think of when|what is important when|"
    f"what matters when|what helps with|what do I need to know about|what do beginners need for|what works for|"
    f"what is the secret of|what should people know about|what is useful for] {{t}}? {_TAIL}",
    f"[I have problems with|I am bad at|I am new to|I need help with|I am not good at|I am thinking about|help me with|"
    f"please help me with|it is about|I have a question about|let's talk about|teach me something about|my topic is|"
    f"my text is about|I am writing about|I have trouble with] {{t}}. {_TAIL}",
    f"{{t}} [is hard for me|is difficult|is not easy|interests me|is my topic|is important to me]. {_TAIL}",
    f"[help|please help|can you help] me [to |]{{b}}. {_TAIL}", "{w} that help [me|people|one|us|beginners] [to |]{b}",
    f"topic: {{t}}[. |\n]{_TAIL}", "{t}: {l}[|, please|.]", "{t}, {l}", "{l} to {b}[|.|, please.]",
    "subject: {t}[. |\n]{L}[|:|.]", "[make|write|draw up|create|put together] a [poster|page|note|leaflet] with {w} "
    f"{_FOR} {{t}}.", "with {w}, explain how to {b}.", f"{_GIVE} {{w}} [on how to|that show how to|to help me] {{b}}.",
    "[explain|say|show|tell me] how to {b}. {W}[, please.|.]",
)
COUNTED_ASKS = (
    "[explain|say|show me|tell me|describe] [how to|how I can|how one can] {b} in {n} [points|short points|lines"
    "|tips].",
    "[{n} ways|{n} good ways|{n} simple ways|{n} easy ways] [to {b}|of {t}][|.|, please.|:]",
    "[what are|name|list|give me|tell me|show me|I need|do you know] {n} [good |simple |easy |]ways to {b}?",
    "[what are|name|list|give me|tell me|write] the {n} [best|most important|most useful] [tips|ideas|rules] for {t}.",
    "[my|your] {n} [best |favorite |]tips for {t}", "top {n} tips for {t}", "tips for {t} ({n})",
    "tips: {t}, {n} of them",
    "[how do I|how can I|how to] {b}? [List|Name|Give me|Use] {n} [points|lines|tips], [no more|no less|please].",
    "I want to {b}. [What are|Name|List] {n} things [to do|to know|I should do|that help][|, please].",
    "a list with exactly {n} [points|tips|entries], topic {t}", "[give|write] {n} [numbered |]tips: {t}",
)
UNCOUNTED_ASKS = (
    "[any|any good|any useful|some|your] [tips|ideas|advice|suggestions|hints|recommendations] [on|for|about] {t}?",
    "do you have any [tips|ideas|advice|suggestions|hints] [on|for|about] {t}?", f"{_HOW}", f"{_HOW}",
    "[I want|I would like|I am trying|I need] to {b}. [What should I do|What do you suggest|What helps|Any ideas|"
    "Where do I start|How do I start|What do you recommend|What is your advice]?",
    "[what should I know about|what helps with|what is important when|what matters when] {t}?",
    "[help|advise] me [with|on] {t}[|, please].", "ways to {b}[|.|?]", "what are [good |some |easy |]ways to {b}?",
    "what would you tell [a friend|someone|my sister|a child] who wants to {b}?", "tips {t}", "how to {b}",
    f"{_WHO} [wants|would like] to {{b}}. [What can you suggest|Any ideas|What do you recommend]?",
)
UNSEEN_LIST_ASKS = ("I am interested in {t}. Which {n} pieces of advice would you offer?",
                    "Advise a beginner on {t} in exactly {n} bullet points.",
                    "What should one keep in mind about {t}? Mention {n} things.",
                    "Somebody wants to get better at {t}; suggest {n} ideas.")

_PROS = "[advantages|advantages|benefits|pros|good sides|strong points|plus points|upsides|good points|strengths|" \
        "positive sides|merits]"
_CONS = "[disadvantages|disadvantages|drawbacks|cons|bad sides|weak points|minus points|downsides|bad points|" \
        "weaknesses|negative sides|problems]"


_END = "[Name {n}.|List {n}.|{N}, please.|{N} points.|{N} points, please.|Give me {n}.|Give {n} points.|Write {n}.]"


def _side_asks(noun: str, side: str, short: str, word: str, verb: str, end: str = _END) -> tuple[str, ...]:
    """Requests for points of one side."""
    give = "[give me|list|name|tell me|write|show me|write down|mention|find|state|think of]"
    talk = "[reasons|arguments|points]"
    return (
        f"{give} {{n}} {noun} of {{y}}.", f"please {give} {{n}} {noun} of {{y}}.", f"what are {{n}} {noun} of {{y}}?",
        f"[I need|I want|I would like|I am looking for|we need] {{n}} {noun} of {{y}}.",
        f"{{n}} {noun} of {{y}}[|.|, please.|?|:]", f"what are the {noun} of {{y}}? {end}",
        f"which {noun} [do|would] you see in {{s}}? {end}", f"[can|could|would|will] you {give} {{n}} {noun} of {{y}}?",
        f"{give} {{n}} {talk} {side} {{y}}.", f"{{n}} {talk} {side} {{y}}[|.|, please.|?|:]",
        f"what are {{n}} {talk} {side} {{y}}?", f"what [speaks|can be said|do people say] {side} {{y}}? {end}",
        f"what is {word} about {{y}}? {end}", f"why is {{s}} a {short} [idea|thing]? {end}",
        f"why [would|might|could] {{s}} be a {short} [idea|thing]? {end}",
        f"why do [some |many |]people {verb} {{y}}? {end}", f"{{s}}: {{n}} {noun}", f"{{s}}, {{n}} {noun}",
        f"topic: {{s}}. {{N}} {noun}[|, please|:|.]",
        f"I am [writing|preparing] [a text|an essay|a speech|a talk] {side} {{s}}. "
        f"[I need|Give me|List|Help me with] {{n}} {talk}.",
        f"I want to speak {side} {{s}}. [What are|Name|Tell me|List] {{n}} {talk}.",
        f"[my class|our group|my friend] talks about {{y}}. [We need|I need|Give us|List] {{n}} {noun}.",
        f"do you know {{n}} {noun} of {{y}}?", f"{{s}} has {noun}. {end}", f"make a list of {{n}} {noun} of {{y}}.",
    )


def _bare(asks: tuple[str, ...]) -> tuple[str, ...]:
    """The requests that need no count."""
    return tuple(ask.strip() for ask in asks if "{n}" not in ask and "{N}" not in ask and "?" in ask)


_GOOD = (_PROS, "[for|for|in favor of]", "good", "[good|pleasant|helpful|positive]",
"[love|enjoy|recommend|praise|defend]")
_BAD = (_CONS, "against", "bad", "[bad|unpleasant|annoying|negative]",
"[hate|avoid|warn against|complain about|criticize]")
GOOD_ASKS, BAD_ASKS = _side_asks(*_GOOD), _side_asks(*_BAD)
BARE_GOOD_ASKS, BARE_BAD_ASKS = _bare(_side_asks(*_GOOD, end="")), _bare(_side_asks(*_BAD, end=""))
UNSEEN_GOOD_ASKS = ("Convince me of {s} with {n} arguments.", "Why do people like {s}? I want {n} answers.")
UNSEEN_BAD_ASKS = ("Talk me out of {s} with {n} arguments.", "Why do people dislike {s}? I want {n} answers.")

_IT = "[this sentence|the sentence|this|the following|the following sentence|this line|these words]"
_DO = "[rewrite|write|say|rephrase|express|put|repeat|give me|formulate]"
_TURN = "[change|turn|transform|convert|put|bring]"
_PLEASE = "[|, please]"
_HOW_TO = "[how do I|how would you|how do you|can you|could you|would you]"


def _tense(name: str, when: str, verb: str) -> tuple[str, ...]:
    """Requests for a tense; `when` are times that go with it."""
    return (f"{_DO} {_IT} in the {name}[| tense]{_PLEASE}.", f"{_TURN} {_IT} into the {name}[| tense]{_PLEASE}.",
            f"[use the |write the ]{name} tense{_PLEASE}.", f"please {_DO} {_IT} in the {name}[| tense].",
            f"what is {_IT} in the {name}[| tense]?", f"{_HOW_TO} [say|write|put] {_IT} in the {name}[| tense]?",
            f"{_DO} {_IT} as if it {verb} {when}{_PLEASE}.",
            f"[{name} form|the {name}|{name}|{name} tense|to {name} tense|in the {name}]{_PLEASE}",
            f"[the time is|it is about|we speak of|think of] {when}. [Change|Adapt|Rewrite|Say] {_IT}[| again].",
            f"[change|set|put|move] the verb into the {name}[| tense]{_PLEASE}.")


REWRITE_ASKS = {
    "past": _tense("past", "[yesterday|last year|last week|a week ago|in 1990|last summer|last night]", "happened"),
    "future": _tense("future", "[tomorrow|next year|next week|next summer|in a year|next Monday]", "happens"),
    "question": (
        f"{_TURN} {_IT} into a [question|yes or no question|yes-no question]{_PLEASE}.",
        f"{_DO} {_IT} as a [question|yes or no question]{_PLEASE}.", "make it a question.", "ask that as a question.",
        f"[question form|as a question|a question|question|to a question]{_PLEASE}",
        f"ask [if|whether] {_IT} is true{_PLEASE}.",
        f"[how do I|how would you|how do you|can you|could you] [ask|say|write] {_IT} as a question?",
        f"[form|write|build|create|make] a [question|yes or no question] [from|out of|of] {_IT}{_PLEASE}.",
        f"put a question mark at the end of {_IT} and [change|order] the words [to fit|correctly|as needed].",
        "[what is the question|which question asks this|what is the question form]?",
    ),
    "negative": (
        f"[make|turn] {_IT} negative{_PLEASE}.", f"[negate|deny] {_IT}{_PLEASE}.", "now negate it.",
        f"say the opposite of {_IT} with [the word |]not{_PLEASE}.",
        f"{_DO} {_IT} [with a negation|in the negative|with not]{_PLEASE}.",
        f"[negative form|the negative|negative|negation|with not]{_PLEASE}",
        f"[put|insert] [a |the word |]not into {_IT}{_PLEASE}.",
        f"[how do I|how would you|how do you|can you|could you] [negate {_IT}|say {_IT} in the negative|make {_IT} "
        f"negative]?",
        f"what is the [negative|negative form|opposite|negation] of {_IT}?",
        f"say that {_IT} is not [true|so|the case].",
        "[write|say|give me] the negative of it.",     ),
    "plural": (
        f"[put|change|set|turn] the subject [of {_IT} |]into the plural{_PLEASE}.",
        "[say it|write it|again] with they.",
        f"use they as the subject[ of {_IT}|]{_PLEASE}.", f"{_DO} {_IT} with they[| as the subject]{_PLEASE}.",
        f"[make|turn] the subject plural{_PLEASE}.", f"replace the [subject|name|person] [by|with] they{_PLEASE}.",
        f"[how do I|how would you|can you|could you] [say|write] {_IT} with they?",
        f"[plural subject|with they|plural|they form]{_PLEASE}",
        f"what is {_IT} with [they|a plural subject]?",
        "[now|next|please] the same about [them|two people|a group]: they.",
        "change [he or she|the person|the name|one person] to they.",
    ),
    "polite": (
        f"[make|turn] {_IT} polite{_PLEASE}.", f"{_DO} {_IT} politely{_PLEASE}.", "rephrase that politely.",
        f"{_DO} {_IT} as a polite [request|question]{_PLEASE}.",
        f"[polite form|politely|polite|as a polite request]{_PLEASE}",
        f"[turn|make|change] {_IT} into a polite [request|question]{_PLEASE}.", f"make {_IT} more polite{_PLEASE}.",
        f"[how do I|how would you|how do you|can you|could you] [say|ask|put] {_IT} [politely|in a polite way|more "
        f"politely]?",
        "[say this|ask this|write this] [in a polite way|with could you please|with more respect|nicely|kindly].",
        "[this is a command|this is an order|this is too direct]. Make it a polite [request|question].",
        "what is a [polite|nicer|kinder|softer] way to [say|ask] this?",
        "I want to ask [my boss|a stranger|a guest] for this politely.",
    ),
}
UNSEEN_REWRITE_ASKS = {
    "past": ("It all happened a long time ago. How would you put it then? {x}",),
    "future": ("This has not happened yet, but it will. Adapt the wording: {x}",),
    "question": ("You are not sure about this, so you ask someone: {x}",),
    "negative": ("That statement is wrong. Correct it by denying it: {x}",),
    "plural": ("Several people do this together. Begin with They: {x}",),
    "polite": ("This sounds rude. Can you make it friendlier? {x}",),
}

_TEXT = "[the text|this text|this|the following text|the story|this news|the news|this article|the article|the passage]"
SUMMARY_ASKS = (
    f"[|please ][summarize|summarise|sum up|shorten|condense|give a summary of|write a summary of] {_TEXT}[|, please].",
    f"[can|could|would] you [please |][summarize|sum up|shorten|give me a summary of|condense] {_TEXT}?",
    "[short |brief |]summary[|, please|:|?]", "TL;DR[|?|, please]",
    "[what is the text about|what is it about]? Summarize it.",
    f"[tell me|what are|give me|write|I need|list] the main [points|ideas|facts] of {_TEXT}.",
    "the main sentence of each paragraph[|, please].",
    f"[I need|I want|write|give me|make|I would like] a [short |brief |]summary[ of {_TEXT}|].",
    "in short[|, please|?|:]",
    "[take|copy|give me|find|write] the [main|first|most important] sentence of [each|every] paragraph.",
    f"[tell me|say] [briefly|in short|in a few words] what {_TEXT} says.",
    f"what does {_TEXT} say[|, in short|, briefly]?",
    f"[reduce|cut] {_TEXT} to its [main|most important] sentences.",
    "[what happened|what is new]? [Be brief|In short|Keep it short], please.",
)
UNSEEN_SUMMARY_ASKS = ("I have no time to read all of this. What are the essentials?\n\n{x}",
                       "{x}\n\nBoil these paragraphs down to what matters most.")
_TITLE = "[title|headline|heading]"
TITLE_ASKS = (
    f"[give|find|write|suggest|think of|choose|invent|I need|make up] a {_TITLE} for {_TEXT}[|, please].",
    f"what [is|would be] a [good |fitting |nice |]{_TITLE} for {_TEXT}?", f"{_TITLE}[|?|, please|:]",
    f"[can|could|would] you [please |][give me|find|write|suggest] a {_TITLE} for {_TEXT}?",
    f"[which|what] {_TITLE} [fits|suits|would fit] {_TEXT}?", f"how [should|could|might] {_TEXT} be called?",
    f"{_TEXT} needs a {_TITLE}. [Find one|Write one|What do you suggest|Suggest one].",
)
