"""The wordings of tool use: instructions, thoughts, questions that need a sum. Knows no values."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ..alternatives import expand
from ..items import listing, upper_first


@dataclass(frozen=True, slots=True)
class Words:
    """Wordings of training, and others that only the evaluation uses."""

    seen: tuple[str, ...]
    unseen: tuple[str, ...]

    def of(self, new: bool) -> tuple[str, ...]:
        return self.unseen if new else self.seen

    def say(self, rng: Random, new: bool, **values: object) -> str:
        """One of the wordings; those of training may have alternatives in brackets and words around them."""
        text = rng.choice(self.of(new))
        if not new:
            text = expand(rng, text)
            if rng.random() < 0.25:
                text = f"{expand(rng, rng.choice(BEFORE))} {upper_first(text)}"
            if rng.random() < 0.1:
                text += expand(rng, rng.choice(AFTER))
        return upper_first(text.format(**values))


BEFORE = ("[hello|hi|hey|good morning|hi there|good day][.|!]", "[please |]help me[ with this|].", "I need [some "
         "|]help.",
          "[here is|I have|now|next] [a|one more|another|a small|my] [question|task|problem].",
          "[question|problem|task|exercise]:", "[can|could] you help me[, please|]?", "[let us|let's] see.",
          "[a friend|my teacher|my boss|somebody] asked me this:", "[this is|it is] for [school|work|a friend|my "
          "homework].")
AFTER = (" [Thanks|Thank you|Thanks a lot|Please help me|Please].", " I [need it|need to know|would like to know].",
         " [Do you know|Can you tell me|Any idea]?")
FIRST = ("I need the {f} of {n}.", "I should look up {n}.", "Let me search for {n}.", "I have to find the {f} of {n}.",
         "I do not know the {f} of {n}, so I search for it.", "First I look up {n}.", "The page about {n} will help.")
THEN = ("Now I need the {f} of {n}.", "Next I look up {n}.", "Now I search for {n}.", "I still need the {f} of {n}.",
        "The next thing to find is {n}.")
ALIKE = ("The full name is {n}. I search for that.", "There is a page with a similar name. I look up {n}.",
         "I try {n}.", "It must be {n}.")
OTHER_NAME = ("Nothing there. The other name is {n}.", "I try the other name, {n}.", "I search again, for {n}.",
              "It is also called {n}, so I look that up.")
DONE = ("", "", "", " I can answer now.", " That is the answer.", " So I finish.", " Done.")
SILENT = ("I could not find that.", "The search does not say that.", "That cannot be found here.")
AT_ONCE = ("I know this without a tool.", "I can answer this at once.", "No tool is needed.", "This is easy.",
           "I know the answer.", "There is no need to search.")
TOO_LARGE = ("I need the calculator.", "I should calculate this.", "This is too large for the head.",
             "Let me work this out.", "I have to calculate.", "The calculator can do this.", "I calculate this.")
SUM = {
    "-": ("Now I subtract.", "I have to work out the difference.", "Let me subtract.", "The difference is needed."),
    "+": ("Now I add.", "I have to work out the sum.", "Let me add them.", "The sum is needed."),
    "*": ("Now I work out the total.", "Let me calculate the total.", "The total is needed.", "Now I multiply."),
}

WHICH = Words(
    ("{w} {p}[,|:] {a} or {b}?", "{w} of [the two|these two|these] {p}: {a} or {b}?", "is it {a} or {b} that {p}?",
     "[between|of] {a} and {b}, {w} {p}?", "[tell me|say|find out|I wonder|work out] {w} {p}[:|,] {a} or {b}.",
     "[I want|I would like|we want|I need] to know {w} {p}[,|:] {a} or {b}.",
     "compare {a} [and|with] {b} and [say|tell me] {w} {p}.", "[do you know|can you tell me] {w} {p}, {a} or {b}?",
     "{a} or {b}: {w} {p}?", "[take|think of|we have] {a} and {b}. {w} [of them |of the two |]{p}?",
     "[is it|would it be] {a} that {p}, or [is it |]{b}?", "{w} {p} when [you|we|I] compare {a} [and|with] {b}?"),
    ("Here are two names, {a} and {b}. Say {w} of them {p}.", "If I put {a} next to {b}, {w} {p}?"))
COST = Words(
    ("what [do|would|will] {g} cost[ in all| together|]?", "how much [do|would|will] {g} cost[ in all| together|]?",
     "what is the [total |full |]price [of|for] {g}?", "how many dollars [do {g} cost|must I pay for {g}|are {g}]?",
     "[I|we] [buy|take|order|need|want] {g}. [How much|What] do [I|we] [pay|have to pay]?",
     "[tell me|I want to know|work out|say|calculate|find out] what {g} cost[ together|].",
     "what [must I|do I have to|does one|should we] pay for {g}?",
     "[we need|we bought|I bought|she wants] {g}. How much money is that?",
     "[a school|a hotel|an office|my boss|our club] [orders|buys|needs] {g}. What [does it pay|does that cost|is the "
     "price]?",
     "how much money [do I need|do we need|does it take|must I bring] for {g}?",
     "[work out|calculate|find|add up|give me] the [total |]price of {g}.", "price of {g}[?|, please.]",
     "how [expensive|dear] are {g}[ together|]?", "{g}: [how much is that|what do they cost|total price]?"),
    ("My shopping list has {g}. What will the bill be?", "How large is the bill for {g}?"))
AGE = (Words(
    ("how old [did {n} turn|was {n}|did {n} become|did {n} get] in {y}?", "which birthday did {n} [have|celebrate] "
    "in {y}?",
     "how many years old did {n} [become|turn] in {y}?", "in {y}, [which|what] age did {n} [reach|turn]?",
     "[what|which] age did {n} [reach|have] in {y}?", "[tell me|I want to know|work out] how old {n} turned in {y}.",
     "what was the age of {n} in {y}?", "[find|give me|calculate] the age of {n} in {y}.", "the year is {y}. How old "
     "does {n} "
     "turn?",
     "how many years after [the birth of {n}|{n} was born] was {y}?", "age of {n} in {y}?"),
    ("On the birthday cake of {n} in {y}, how many candles were there?",)), "{n} turned {d} in {y}.")
EXISTED = (Words(
    ("how many years had {n} existed [in|by] {y}?", "how [many years |]old was {n} in {y}?",
     "in {y}, how [many years |]old was {n}?", "what was the age of {n} in {y}?", "age of {n} in {y}?",
     "[tell me|I want to know|work out|calculate] how old {n} was in {y}.", "the year is {y}. How old is {n}?",
     "for how many years had {n} been there in {y}?", "how many years [lie|are there] between the beginning of {n} "
     "and {y}?"),
    ("In {y} people celebrated {n}. How many years had passed since the beginning?",)), "{n} was {d} years old in {y}.")

SIGNS = Words(
    ("[what is|what's|how much is] {e}?", "what does {e} [equal|make|give]?", "[calculate|compute|work "
    "out|evaluate|solve] {e}.",
     "{e} = ?", "{e} =", "{e}", "{e}?", "[please |can you |could you |]calculate {e}", "tell me [the value of|what "
     "is] {e}.",
     "[find|give me|I need|I want|show me] the [value|result|answer] of {e}.", "[use a calculator|calculator]: {e}",
     "what is the [result|value|answer] of {e}?", "what do [I|we|you] get for {e}?",
     "[the sum|the expression|the task|the calculation] is {e}. [What is its value|How much is it|What do I get]?",
     "I [have to|need to|must|want to] [calculate|work out|know] {e}."),
    ("My homework says {e}. What comes out?", "Solve this for me: {e}"))
SMALL_SUM = SIGNS
SUMS = {
    "{a} + {b}": Words(
        ("[what is|how much is|what's] {a} plus {b}?", "[please |]add {a} and {b}[ for me|].", "add {b} to {a}.",
         "what is the [sum|total] of {a} and {b}?", "[find|give me|work out] the [sum|total] of {a} and {b}[.|, "
         "please.]",
         "[what|how much] do {a} and {b} make [together|in all|in total]?", "{a} plus {b}[?| is what?| makes what?]",
         "what do [I|we|you] get [if|when] {a} and {b} are added?", "[how much|what] is {b} more than {a}?",
         "the first number is {a}, the second is {b}. What is their sum?", "add up {a} and {b}."),
        ("Put {a} and {b} together. How much is it?",)),
    "{a} - {b}": Words(
        ("[what is|how much is|what's] {a} minus {b}?", "[please |]subtract {b} from {a}[ for me|].", "{a} minus {b}?",
         "what is the difference [of|between] {a} and {b}?", "[find|give me|work out] the difference [of|between] "
         "{a} and {b}[.|, please.]",
         "take {b} away from {a}.", "how much [larger|more|greater] is {a} than {b}?", "take {b} from {a}.",
         "how much [smaller|less] is {b} than {a}?", "what do [I|we|you] get [if|when] {b} is subtracted from {a}?",
         "[what|how much] is {b} less than {a}?", "from {a}, subtract {b}.", "how much must be added to {b} to get "
         "{a}?"),
        ("I start with {a} and lose {b}. What is left?",)),
    "{b} * {c}": Words(
        ("[what is|how much is|what's] {b} [times|multiplied by] {c}?", "[please |]multiply {b} [by|with] {c}[ for "
        "me|].",
         "what is the product of {b} and {c}?", "[find|give me|work out] the product of {b} and {c}[.|, please.]",
         "{b} times {c}?",
         "what do [I|we|you] get [if|when] {b} is multiplied by {c}?", "multiply the number {b} by {c}.",
         "how much are {c} times {b}?", "the numbers are {b} and {c}. What is their product?"),
        ("How much do I get when {b} is taken {c} times?",)),
    "{c} * {d}": Words(
        ("[what is|how much is|what's] {c} [times|multiplied by] {d}?", "[please |]multiply {c} [by|with] {d}[ for "
        "me|].",
         "what is the product of {c} and {d}?", "[find|give me|work out] the product of {c} and {d}[.|, please.]",
         "{c} times {d}?",
         "what do [I|we|you] get [if|when] {c} is multiplied by {d}?"),
        ("How much do I get when {c} is taken {d} times?",)),
    "{m} / {c}": Words(
        ("[what is|how much is|what's] {m} [divided by|over] {c}?", "[please |]divide {m} by {c}[ for me|].",
         "how many times does {c} [go|fit] into {m}?", "{m} divided by {c}?", "how often does {c} go into {m}?",
         "how large is each part when {m} is [divided|split] [equally |]by {c}?", "share {m} equally among {c}.",
         "what do [I|we|you] get [if|when] {m} is divided by {c}?", "split {m} into {c} equal parts.",
         "[find|calculate|give me] the quotient of {m} and {c}."),
        ("If {m} is cut into {c} equal pieces, how much is one piece?",)),
    "({a} + {b}) * {c}": Words(
        ("[add|add up] {a} and {b} and multiply [the sum|the result|it] by {c}.", "what is the sum of {a} and {b}, "
        "times {c}?",
         "multiply the sum of {a} and {b} by {c}.", "what is {c} times the sum of {a} and {b}?",
         "[work out|calculate] {c} times the sum of {a} and {b}.", "{a} and {b} are added, then multiplied by {c}. "
         "Result?"),
        ("First add {a} and {b}, then take the result {c} times. What is it?",)),
    "{a} + {b} * {c}": Words(
        ("multiply {b} by {c} and add [the product|the result] to {a}.", "what is {a} plus the product of {b} and {c}?",
         "add the product of {b} and {c} to {a}.", "[work out|calculate] {a} plus {b} times {c}.",
         "what is {a} plus {b} times {c}?", "{b} is multiplied by {c}, and {a} is added. Result?"),
        ("Take {a} and put {b} times {c} on top. How much is it?",)),
    "{h} * {c} / 100": Words(
        ("[what is|how much is|what's] {c} percent of {h}?", "[calculate|find|give me|work out] {c} percent of "
        "{h}[.|, please.]",
         "what is {c}% of {h}?", "{c}% of {h}?", "how much [are|is] {c} percent of {h}?", "[find|calculate] {c}% of "
         "{h}.",
         "take {c} percent of {h}."),
        ("Of {h} people, {c} percent say yes. How many is that?",)),
}

PROBLEMS = (
    ("{b} * {c}", "That makes {v}.", Words(
        ("[a factory|a workshop|a machine|one firm] [makes|builds|turns out] {b} "
        "[cups|shoes|toys|lamps|parts|chairs] [a day|"
         "every day|each day]. How many does it make in {c} days?",
         "there are {c} [boxes|bags|crates|shelves|drawers] with {b} [nails|coins|beads|buttons|cards] in each. How "
         "many are "
         "there [in all|altogether|in total]?",
         "[each|every] [box|crate|bag|lorry] holds {b} [oranges|eggs|bottles|letters]. How many do {c} of them hold?",
         "{p} [earns|saves|makes|gets] {b} dollars a month. How many dollars is that in {c} months?",
         "[a printer prints|a writer types|a scanner reads] {b} pages an hour. How many pages is that in {c} hours?",
         "one [ticket|book|shirt|pizza|cap] costs {c} dollars, and {b} were sold. How much money came in?",
         "a baker bakes {c} [loaves|cakes|rolls] a day. How many is that in {b} days?",
         "[a train|a plane|a bus|a van] [goes|travels|covers] {b} kilometres a week. How far does it go in {c} weeks?",
         "a [book|report|dictionary] has {b} words on [each|every] page and {c} pages. How many words does it have?",
         "[a hall|a theatre|a cinema|a church] has {c} benches with room for {b} [people|guests] on each. How many "
         "fit in?",
         "{b} [children|pupils|guests|players] get {c} [sweets|stickers|nuts|pens] each. How many are [given "
         "out|needed]?",
         "[a garden|a field|a park|a farm] has {c} beds with {b} [flowers|plants|tulips] in each. How many are there?"),
        ("A ship carries {c} containers, each with {b} bottles in it. How many bottles travel on the ship?",
         "Every row of a stadium has {c} seats and there are {b} rows. How many people can sit down?"))),
    ("{a} - {b}", "{v} are left.", Words(
        ("{p} [has|owns] {a} [dollars|stamps|coins|points] and [uses|loses|gives away] {b} of them. How many are left?",
         "[a library|a shop|a museum|a school] has {a} books. {b} of them are [lent out|sold|damaged|given away]. "
         "How many "
         "are left?",
         "there were {a} [people|fans|guests|visitors] in the [stadium|park|hall|square]. {b} [went home|left]. How "
         "many "
         "[are left|stayed|are still there]?",
         "[a farm|a shop|a market] had {a} [eggs|melons|apples|pears] and sold {b}. How many [are left|does it have "
         "now]?",
         "out of {a} [letters|parcels|orders|forms], {b} [have been sent|are done]. How many are still to do?",
         "a [trip|road|trail|race] is {a} metres long. {p} has done {b} metres. How many metres are left?",
         "{p} wants to [save|raise|earn] {a} dollars and has {b}. How many dollars are missing?",
         "{a} [tickets|seats|copies] are for sale. {b} are [gone|sold]. How many [remain|can one still get]?",
         "a [barrel|pool|pond] [holds|has] {a} litres, and {b} litres [run out|are used]. How much is left?"),
        ("Of {a} trees in a forest, a storm took {b}. How many trees still stand?",
         "The tank held {a} litres until {p} let {b} litres out. How many litres remain?"))),
    ("{a} + {b}", "Together that is {v}.", Words(
        ("{a} [people|guests|visitors|fans] came on [Saturday|Monday] and {b} on [Sunday|Friday]. How many came in "
        "all?",
         "{p} [walked|ran|took] {a} steps in the morning and {b} in the evening. How many steps is that [together|in "
         "all]?",
         "[a shop|a kiosk|a market] sold {a} [pens|pears|caps] and {b} [pencils|plums|scarves]. How many things did "
         "it sell?",
         "a [town|city|village] has {a} [houses|trees|shops] and gets {b} more. How many does it have then?",
         "{p} has {a} dollars and [gets|earns|finds|wins] {b} more. How many dollars does {p} have now?",
         "[one|the first] [school|village|hotel] has {a} [people|rooms|windows], [another|the second] has {b}. How "
         "many do "
         "both have [together|in total]?",
         "a [machine|van|computer] costs {a} dollars and its [transport|repair|insurance] {b}. What is the total cost?",
         "[a farmer|a gardener|our club] planted {a} trees [last year|in spring] and {b} [this year|in autumn]. How "
         "many is "
         "that?",
         "on the first day {a} [letters|calls|orders] came in, on the second {b}. How many came in on both days?"),
        ("{p} paid {a} dollars for a car and {b} dollars to repair it. What was spent in the end?",
         "One truck brings {a} bricks, another {b}. How many bricks arrive?"))),
    ("{m} / {c}", "Each gets {v}.", Words(
        ("{m} [dollars|coins|points|cards] are [shared|divided|split] equally [by|among|between] {c} [people|friends|"
         "players]. How many does each get?",
         "{p} packs {m} [apples|books|cups|balls] into {c} [boxes|bags|crates], the same number in each. How many "
         "are in "
         "each?",
         "[a school|a city|a firm] gives {m} [sheets|pens|tickets] to {c} [classes|groups|teams] in equal parts. How "
         "many "
         "does each get?",
         "{c} [friends|workers|sisters|partners] earn {m} dollars together and share it equally. How much does each "
         "get?",
         "{m} [chairs|plants|bottles] stand in {c} equal rows. How many are in each row?",
         "in {c} days {p} [reads|writes|types] {m} words, the same number each day. How many words is that a day?",
         "a machine makes {m} parts in {c} hours. How many does it make in one hour?",
         "{m} [pupils|guests|fans] are spread evenly over {c} [buses|halls|tents]. How many are in each?"),
        ("A club of {c} members won {m} dollars. What is the fair share of one member?",
         "{m} seeds are sown in {c} rows, as many in one row as in the next. How many seeds are in one row?"))),
)

INTROS = (
    "[please |]answer the [following |]question[.| with the help of tools.| with these tools.| step by step.]",
    "answer the question. You [can|may] use [the |some |these |]tools[ below|].",
    "[solve|answer|work on] the [question|task|problem] by taking turns of Thought, Action and Observation.",
    "you answer questions. [Think, act, look at the observation|Think, then act, then read the observation], and go on "
    "until you know the answer.",
    "[use|choose|take] [the|these] tools to [answer the question|find the answer|solve the task].",
    "answer questions step by step, with tools where they are needed.",
    "think about the question, then choose an action[, until the answer is clear|].",
    "[here is|there is|you get] a question. Find its answer with [these|the] tools.",
    "answer the question as well as you can. You have [access to |]some tools.",
    "question answering with [a look-up and a calculator|a calculator and a look-up|tools].",
    "[interleave|mix|alternate] thoughts, actions and observations.", "[first think, then act|think first, act then]. "
    "[Repeat|Go on] until the answer is [found|known].",
    "you are a [careful|helpful|smart|patient] [assistant|agent] who [uses|has|works with] tools.",
    "[think|reason] in steps. [Each step has|In each step there is] a thought and an action.",
    "[the task is|your task is] to [answer a question|find an answer] [with|by] [thoughts and actions|the use of "
    "tools].",
    "[after|behind] each thought [choose|write|comes] an action, and an observation [follows|is given].",
)
ACTIONS = (
    ("Search", ("name", "name", "topic", "title", "..."), "[looks up|finds|gives|shows] [a page|the page about a "
    "name|what is "
     "known about a name]|is for [looking things up|names you do not know|facts]|[searches for|looks for] a page"),
    ("Calculate", ("expression", "expression", "sum", "formula", "..."), "[works out|calculates|gives the value of] "
    "[a sum|an "
     "expression]|is [for|a tool for] [sums|calculations|numbers]|is [a|the] calculator"),
    ("Finish", ("answer", "answer", "result", "..."), "[gives|tells|returns|states] the answer|ends [with the "
    "answer|the "
     "task]|is for the [answer|end]|says the answer and ends"),
)
LISTS = ("[there are three|you have three] actions:", "[the|your] actions are:", "[tools|actions|what you can "
         "do|commands]:", "[action is|"
         "use|choose] one of:", "[you have|you can use|there are|we have] [these|the following] [tools|actions]:", "")
UNSEEN_HEADS = (
    "Below you see a question. Work towards its solution in rounds: write a thought, then an action.\n"
    "Allowed actions: Calculate[expression] for arithmetic, Search[name] for facts, Finish[answer] when ready.\n",
    "Your job is to reply to a question. Two helpers are there for you, Search[name] and Calculate[expression]; "
    "Finish[answer] hands in the reply.\n",
)
UNSEEN_SYSTEM = ("Two helpers are at hand, Calculate[expression] for arithmetic and Search[name] for facts. Call one "
         "at a "
                 "time.")
SYSTEM_INTROS = (
    "you [can|may] use [two |]tools.", "[answer|help] [the user |]with [the help of |][two |]tools.", "you have [two "
    "|]tools.",
    "you are [a helpful|a careful|a friendly|an] assistant with tools.", "[use|take] a tool [when|where|if] [you "
    "need one|it "
    "is needed|it helps].", "answer the user. If you need to, call a tool first.", "[call|use] the tools when you "
    "need them.",
    "you are an assistant. To call a tool, write only the call.", "you are [a|an] [helpful |]agent that can call "
    "tools.",
    "[look things up|search] and calculate before you answer, if [you have to|it is needed].", "")

CHOICE = Words(
    ("Which tool is needed for this question: {q} Answer calculator, search engine or none.",
     "Choose a tool (calculator, search engine, none) for the question: {q}",
     "Question: {q} Which tool do you need, calculator, search engine or none?",
     "Do I need a calculator, a search engine or none of them for this? {q}",
     "Tools: calculator, search engine, none. Which one fits the question \"{q}\"?",
     "Pick the tool for this question. {q} The tools are calculator, search engine and none.",
     "To answer \"{q}\", do I use a calculator, a search engine or none?",
     "{q}\nName the tool that this question needs, calculator, search engine or none.",
     "calculator, search engine or none? {q}",
     "Decide between calculator, search engine and none: {q}"),
    ("Someone asks me this: \"{q}\" What should I take, calculator, search engine, or none?",
     "What helps to answer the following? {q} Say calculator, search engine or none."))


def _listed(rng: Random, count: int) -> str:
    """The first actions of the list, in some order and layout, with what they do or without."""
    actions = [(f"{name}[{rng.choice(arguments)}]", expand(rng, f"[{does}]"))
               for name, arguments, does in ACTIONS[:count]]
    if rng.random() < 0.5:
        actions = [*rng.sample(actions[:2], 2), *actions[2:]]
    if rng.random() < 0.2:
        return f"{listing([call for call, _ in actions])}."
    if rng.random() < 0.4:
        return " ".join(f"{call} {does}." for call, does in actions)
    marks = rng.choice((("",) * 3, ("- ",) * 3, ("* ",) * 3, ("(1) ", "(2) ", "(3) ")))
    if rng.random() < 0.6:
        between = rng.choice((": ", " - "))
        actions = [(call + between, does.removeprefix("is ")) for call, does in actions]
    else:
        actions = [(f"{call} ", does) for call, does in actions]
    return "\n" + "\n".join(mark + call + does for mark, (call, does) in zip(marks, actions, strict=False))


def head(rng: Random) -> str:
    """An instruction that lists the tools."""
    intro, lead = upper_first(expand(rng, rng.choice(INTROS))), upper_first(expand(rng, rng.choice(LISTS)))
    return f"{intro}{rng.choice((' ', chr(10)))}{f'{lead} {_listed(rng, 3)}'.strip()}\n".replace(": \n", ":\n")


def system(rng: Random, new: bool) -> str:
    """A system line that tells how a chat can call tools."""
    if new:
        return UNSEEN_SYSTEM
    intro, lead = upper_first(expand(rng, rng.choice(SYSTEM_INTROS))), rng.choice(("Tools: ", ""))
    tools = _listed(rng, 2).strip()
    return f"{intro} {lead if chr(10) not in tools else 'Tools:' + chr(10)}{tools}".strip()
