"""The wordings of the puzzles with numbers and maps: templates with alternatives in brackets, of which one is taken.

What a template leaves out (the moves, the map) is told in a sentence of its own, before or after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from ..alternatives import expand
from ..items import upper_first

OPENINGS = ("[hello|hi|good morning|hi there|hey][.|!]", "please help me[ with this|].",
            "[can you|could you] help me[, please|]?",
            "[here is |I have |now |next, ][a|one more|another|a small|an easy] [puzzle|task|question|riddle].",
            "[puzzle|task|question|exercise|problem]:", "[let us|let's] [play|go on|try this one|think].")

STATE = ("[[state|now|current number|at the moment|number]: {s}.|[I am|I'm|we are|I am now|we are now] at {s}."
         "|[the|the current|our] [number|state] is {s}.|[I have|we have|I hold] the number {s}.|[I|we] start at {s}.]")
GOAL = ("[[goal|target|wanted|aim]: {g}.|[the|our|my] [goal|target|wanted number|aim] is {g}."
        "|[I want|I would like|we want|I need|I try|we try] to [reach|get to|arrive at|make|have] {g}.]")
MOVES = ("[[moves|allowed moves|possible moves|allowed|operations|steps]: {m}."
         "|[the|my|our|the allowed|the possible] [moves|operations|steps] are {m}."
         "|[I can|you can|one can|I may|you may|we may] [use|choose|take] {m}.]")
LEFT = "[[moves left|left|moves that remain]: {k}.|[I have|we have|you have] {n} left.]"
FACTS = {"s": STATE, "g": GOAL, "m": MOVES}
WITH_LEFT = {**FACTS, "n": LEFT}
"""What the puzzle consists of, each told in one of these ways."""

TO = "[from {s} to {g}|to {g} from {s}]"

PATH_HEADS = (
    "[Reach|Find a way to|Get to|Arrive at] the goal [number |]from the start[ number|]. Numbers [stay|must be|are] "
    "from 0 to 40.",
    "[A|One more|Another|Here is a] [number puzzle|puzzle with numbers|path of numbers]: get from the start to the "
    "goal[ with the moves|].",
    "[Number path|Puzzle|Number puzzle][.|:] [Find moves that lead to the goal.|Which moves lead to the "
    "goal?|Reach the goal.]",
    "[Use|Take] the moves to [turn|change] the start[ number|] into the goal[ number|].",
    "Which moves lead from the start to the goal?", "Let us play a game with numbers[. No number may be above 40|].",
    "[Puzzle|Task|Problem|Game|Number path]:",
    "[Starting|If you start|Begin] at the start number, [reach|find] the goal in as few moves as possible.",
)
PROPOSE = (
    "[next states|next numbers|next steps|what comes next|list of next states][:|?]",
    "[what|which number|which numbers] can [follow|come after|come next after|be made from] {s}?",
    "[list|give|write down|show|name|tell me|find|propose|print] [the|all|all the|every one of the] [next|following] "
    "[states|numbers|steps][ of {s}| from {s}| that follow {s}|].",
    "[which|what] [numbers|states] can [I|we|you|one] [reach|get|make] from {s} [in|with] [one|a single] [move|step]?",
    "[do|use|try|take] [each|every one|all] of the moves [once |]on {s}.",
    "[what|which] are the [next|following|possible next] [states|numbers|steps][ of {s}| after {s}| from {s}|]?",
    "[from {s}|standing at {s}|with {s}|for {s}|at {s}], [show|list|give|name|tell me] "
    "[[every|each] next [state|number]|all next [states|numbers]].",
    "[where|to which numbers] can [I|we|you] [go|move|get] [from {s}|from here|next]?",
    "[what|what number] [comes out|do I get|do we get] [for|with|after] [each|every one] of {m} on {s}?",
    "[do|calculate|work out] {m} [for|with|starting from] {s}[, each on its own| one by one|].",
    "{s} [with|and] {m}: [next states|what is possible|which numbers follow|next numbers]?",
    "[I wonder|tell me|I want to know|can you say|please say] [which|what] numbers [come|are] [next|after {s}].",
    "[expand|branch out from|continue from|make one move from] {s}.",
)
PROPOSE_UNSEEN = ("Say what each of the moves {m} makes of {s}, please. We are heading for {g}.",
                  "On my way to {g} I have come to {s}. Apply {m}, one at a time.")
DISTANCE = (
    f"[how many|what number of] [moves|steps] [is it|are needed|does it take|are there|do I need|do we need] {TO}?",
    "[moves to go|moves needed|distance|number of moves|moves still to go|moves][:|?]",
    "how [far|far away] is {g} from {s}[, in moves| in moves|]?", "how [far|far away] [is|lies] the goal?",
    f"[count the moves|find the number of moves|give the number of steps|tell me the distance] {TO}.",
    "how many [moves|steps] are [left|needed|missing|still to do|to go][ until {g}| to {g}|]?",
    f"what is the [least|smallest|lowest] number of [moves|steps] {TO}[ with {{m}}|]?",
    "[rate|judge|value|score] [the state |the number |]{s}[ for the goal {g}|] by its moves to go.",
    f"{TO}[ with {{m}}|], how many [moves|steps]?", "[judge|say|tell me|find out|estimate] how far {s} is from {g}.",
    "how many times [must|do|should] [I|we|you] [move|make a move] [until|before] [{s} becomes|we have|I have] {g}?",
    "how [soon|quickly|fast] can {s} [become|be turned into|get to|be made into] {g}[ with {m}|]?",
    "what is the distance [of|between] {s} [to|and] {g}[ in moves|]?",
    "[I would like|I want|we want] to know [how many moves|how many steps] [are left|remain|it takes][ to {g}|].",
    "[at least|at best], how many [moves|steps] [from {s}|for {s}] [to|till] {g}?",
    f"[I wonder|tell me|please say|work out] how many [moves|steps] it is {TO}[ with {{m}}|].",
)
DISTANCE_UNSEEN = ("If only {m} are allowed, what is the shortest way from {s} to {g}, counted in moves?",
                   "{s} is where I stand and {g} is where I must be. {m} are my moves. How far is that?")
THREE = "[sure, maybe or impossible|sure, maybe, impossible|impossible, maybe or sure]"
REACH = (
    f"can {{g}} be [reached|made] from {{s}} [in|with] {{n}}[ with {{m}}|]? [Answer|Say|Choose] {THREE}.",
    f"is {{g}} in reach[ of {{s}}| from {{s}}|][: | - ]{THREE}?", "[verdict|judgement|rating|in reach][:|?]",
    f"[judge|rate|classify] [the state |the number |]{{s}} as {THREE}.",
    f"is it {THREE} that {{s}} becomes {{g}}[ in {{n}}| within {{n}}|]?",
    f"{TO} in {{n}}[ out of {{m}}|], is that {THREE}?", f"[is the goal|is {{g}}] [{THREE}|within {{n}}: {THREE}]?",
    f"[can I|can we|will I|could we] [still |]get from {{s}} to {{g}}[ in {{n}}|]? [Answer|Say|Reply with] {THREE}.",
    f"[say|tell me|decide] [whether|if] {{g}} [is|can be] [reached|made] [from {{s}} |][in|within] {{n}}: {THREE}.",
    f"with {{n}} [left|to go], [getting|coming|going] {TO}[ by {{m}}|] is {THREE}?",
    f"{THREE}: [reaching|getting to|making] {{g}} from {{s}}[ in {{n}}|]?", f"[your|what is your] verdict ({THREE})?",
    f"{THREE}?", f"will {{n}} be enough to get [from {{s}} to {{g}}|to {{g}} from {{s}}]? Answer {THREE}.",
)
REACH_UNSEEN = (
    "How good are my chances (sure, maybe, impossible) to come from {s} to {g} with {m}, if I may do {n}?",)
SOLVE = (
    "[path|way|solution|path to the goal][:|?]", "[get|go|move|find a way|find the path] from {s} to {g}[ with {m}|].",
    "[solve|solve this|solve the puzzle][: from {s} to {g}.|.]",
    "[find|give|write|tell me|show me|print] [the|a|the shortest] [path|path of numbers|row of moves] "
    "[from {s} to {g}|to {g} from {s}][ with {m}|].",
    "[which|what] [moves|steps] [lead|take me|bring me|go] from {s} to {g}?",
    "how [do I|do we|can I|can you|does one] [come|get|go|move] [from {s} to {g}|to {g} from {s}][ with {m}|]?",
    "[use|take|combine] {m} to [turn|change|make] {s} into {g}.",
    "[turn|change|make] {s} into {g}.", "[reach|make|arrive at] {g} [from|with|starting from] {s}.",
    "[start|begin] [at|with|from] {s} and [reach|get to|make|end at] {g}.", "how can {s} [become|be turned into] {g}?",
    "[what is|do you know|can you find|is there] [the|a] [path|solution|row of moves] from {s} to {g}?",
    "[which|what] [moves|steps] [make|turn|change] {s} into {g}?", "[bring|take|move|lead] {s} to {g}.",
    "[I would like|I want|we want|I have] to [get|go|come] from {s} to {g}. [How|Which moves|What do I do]?",
)
SOLVE_UNSEEN = ("My number is {s} and it should become {g}. I may only do {m}. Show the way.",
                "Lead me to {g}, beginning with {s}. Nothing but {m} is allowed.")
CHECK = (
    "is this [path|way|solution|row of moves] [right|correct|good]? [Path: |]{p}",
    "[check|test|verify|look over] [the|this|my] [path|solution|way]: {p}[. It should lead from {s} to {g}|].",
    "does this [lead|go|get] from {s} to {g}? {p}", "is \"{p}\" [a right path|right]?",
    "do you think that \"{p}\" is [right|correct]?",
    "is this [way|path] right: {p}?", "[right or wrong|correct or not|true or false|is it right]? {p}",
    "[path|my path|the path|answer|my solution]: {p}. [Is it|Is that] [right|correct|a solution]?",
    "[I found|somebody wrote|my friend says|my answer is|the pupil wrote] {p}. [Is that|Is this] [right|correct]?",
)

ROADS = ("[[roads|map|the roads|the map|streets|all roads|road map|list of roads|paths|connections]: {r}."
         "|[the|here are the|these are the|there are these|we have the] [roads|streets|paths|connections]: {r}."
         "|the [roads|streets|paths|connections] are {r}.|[here is|this is|take] [a|the|my|our] [map|road map]: {r}."
         "|[suppose there are|think of] the [roads|streets|paths] {r}.]")
PLACES = {"r": ROADS}
NEIGHBOURS = (
    "[which|what] places can [I|we|you|one] [reach|get to|go to|visit] [directly|in one step|by one road] from {a}?",
    "[neighbours|neighbors|next places|directly reached] [of|from] {a}[:|?]",
    "where do the [roads|paths] from {a} lead?",
    "[list|name|give|write down|tell me|show|find] [the|all|all the] [neighbours|neighbors] of {a}.",
    "which places are [one step|a step] [away |]from {a}?",
    "[I am|I'm|we are|I am now|you are] [at|in] {a}. Where can [I|we|one|you] go [next|from here|now]?",
    "[name|list|give|tell me|show] the places [next to|beside|that touch|directly reached from|joined to] {a}.",
    "[which|what] [roads|streets|paths] [lead|go|start] from {a}, and where to?",
    "[which|what] are the [neighbours|neighbors] of {a}?", "which places have a road to {a}?",
    "[where|to which places] can [I|we|you|one] [drive|walk|go|travel|ride] [directly |]from {a}?",
    "[to|with] which places does {a} [have a road|have roads|share a road]?", "{a}: [neighbours|where to|next places]?",
    "[I want|I would like|we need] to know [the neighbours of {a}|the places next to {a}|where I can go from {a}].",
    "[leaving|starting from|going out of] {a}, where can [I|we|you] [arrive|be] [after one step|first]?",
    "[from {a}|at {a}|out of {a}], [which|what] places come next?",
)
NEIGHBOURS_UNSEEN = ("I have a map with the roads {r}. Standing at {a}, which places are one road away?",
                     "Look at {r} and tell me what {a} is connected with.")
IS_ROAD = (
    "is there a [direct |][road|street|path|connection] [between {a} and {b}|from {a} to {b}]?",
    "are {a} and {b} [neighbours|neighbors|next to each other|joined|directly joined]?",
    "can [I|we|you|one] [go|drive|walk|get|travel] [directly|in one step|at once] from {a} to {b}?",
    "does a [road|street|path] [join|link] {a} and {b}?", "is {b} [one step|one road] from {a}?",
    "is {b} [a neighbour of|a neighbor of|next to|directly reached from|joined to] {a}?",
    "does a [road|street|path] [lead|go|run] from {a} [directly |straight |]to {b}?", "{a} - {b}: is there a road?",
    "[road|direct road] [from {a} to {b}|between {a} and {b}]: [yes or no|is there one|does it exist]?",
    "[do you see|does the map show|can you find|is there really] a road [between {a} and {b}|from {a} to {b}]?",
    "[tell me|say|find out] [whether|if] [a road joins {a} and {b}|there is a road from {a} to {b}].",
    "do {a} and {b} [have|share] a [road|direct road]?",
)
ROUTE = (
    "[find|give me|tell me|show me|plan|write down|search for] [a|the|the shortest|the best] [route|way|path] "
    "[from {a} to {b}|to {b} from {a}].",
    "[from {a} to {b}|{a} to {b}][.|?|, please.]", "[route|way|path|shortest route][ from {a} to {b}| to {b} from {a}]"
    "[:|?]",
    "how [do|can|would|should] [I|we|you|one] [get|go|drive|walk|travel|come] [from {a} to {b}|to {b} from {a}]?",
    "[I am|I'm|we are] [at|in] {a} and [want|have|need|would like] to [go|get|travel|come|drive] to {b}. "
    "[How do I get there?|Which way?|Find the way.]",
    "start: {a}. [Goal|End|Target]: {b}.", "[lead|guide|bring|take|drive] me from {a} to {b}.",
    "[which|what] [route|way|path] [leads|goes|takes me|brings me] from {a} to {b}?",
    "[which|what] is the [shortest|best|right] [way|route|path] [from {a} to {b}|between {a} and {b}]?",
    "[through|over|along] which places [do I|do we|must I|does one] [go|drive|walk|travel] from {a} to {b}?",
    "[starting|beginning] [at|in|from] {a}, how [do I|can I|do we] [reach|get to|arrive at] {b}?",
    "[my way|our trip|the trip|my trip|the journey] [starts|begins] at {a} and [ends|finishes] at {b}. "
    "[Find|Plan|Show] [the route|it].",
    "how is {b} reached from {a}?",
    "[I need|I want|we need|we want] [to go|to travel|a route|the way] from {a} to {b}.",
    "[can you|could you|will you] [find|plan|show me|tell me|work out] [a|the] [route|way] from {a} to {b}[, please|]?",
    "please [find|plan|show me|tell me|work out] [a|the] [route|way] from {a} to {b}.",
)
ROUTE_UNSEEN = ("I live in {a}, my friend lives in {b}, and these are the roads: {r}. Which way do I take?",
                "{r} are the roads. What is the quickest way to {b} if I start in {a}?")


def worded(rng: Random, words: Sequence[str], facts: Mapping[str, str]) -> str:
    """One of the templates, with a sentence for each fact whose field it leaves out. Fields stay in braces."""
    asked = upper_first(expand(rng, rng.choice(words)))
    told = [upper_first(expand(rng, fact)) for field, fact in facts.items() if f"{{{field}}}" not in asked]
    if not told:
        return asked
    rng.shuffle(told)
    if rng.random() < 0.7:
        told.append(asked)
    else:
        ended = f"{asked[:-1]}?" if asked[-1] == ":" else asked + "." * (asked[-1] == "}")
        told.insert(rng.randrange(len(told)), ended)
    if rng.random() < 0.15:
        told.insert(0, upper_first(expand(rng, rng.choice(OPENINGS))))
    return rng.choice((" ", " ", "\n")).join(told)
