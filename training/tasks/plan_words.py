"""How people ask for the day of a character, for an hour of it, for the weight of a memory, for what is remembered.

{p} a character, {n} a count of lines, {t} a time, {d} what is being done, {w} who remembers, {o} whom. UNSEEN_ ones are
for the evaluation only; {x} is where the persona or the memory stands, if the wording itself says it.
"""

from __future__ import annotations

_PLAN = "[plan|schedule|timetable|program|daily plan|daily schedule|plan of the day|plan for the day]"
_LINES = "[lines|lines|steps|entries|items|points|times|activities|parts|rows of text]"
_MAKE = "[write|make|give me|create|draw up|show me|prepare|invent|produce|put together|I need|I want]"
_WHO = "[{p}|{p}|{p}|this person|this character|the character]"
_EACH = "[|, with times|, each with a time|, with the hours]"
PLAN_ASKS = (
    f"{_MAKE} a {_PLAN} [for|of] {_WHO} [in|with|of] {{n}} {_LINES}{_EACH}[|, please].",
    f"{_MAKE} a {_PLAN} with {{n}} {_LINES}[| for {_WHO}]{_EACH}.", f"{_PLAN}, {{n}} {_LINES}[|:|.|, please]",
    f"{{n}} {_LINES}: the day of {_WHO}",
    f"[a|the] {_PLAN} of {_WHO}[, {{n}} {_LINES}| in {{n}} {_LINES}][|.|:|, please]",
    f"plan the day of {_WHO} in {{n}} {_LINES}{_EACH}.", f"plan {{n}} {_LINES} [for|of] [the day of |]{_WHO}.",
    f"plan a day for {_WHO}[, {{n}} {_LINES}| in {{n}} {_LINES}| with {{n}} {_LINES}][|, please].",
    f"[what does|what will] {_WHO} do today? [Use|Write|Give me|List|Make] {{n}} {_LINES}{_EACH}.",
    f"[what does|what might] [a normal|a typical|a usual] day of {_WHO} look like? {{N}} {_LINES}, please.",
    f"how does the day of {_WHO} [look|go|pass]? [Use|Write|Answer in|Tell it in] {{n}} {_LINES}.",
    f"[list|name|write down|tell me|give me] {{n}} things that {_WHO} does today{_EACH}.",
    f"[can|could|would] you [please |][write|make|plan|create|draw up] a {_PLAN} [for|of] {_WHO} [in|with] {{n}} "
    f"{_LINES}?",
    f"[describe|tell|show|write down] the [day|whole day|working day|day from morning to night] of {_WHO} in {{n}} "
    f"{_LINES}{_EACH}.",
    f"[today, from morning to night, in|from waking up to bed in|the day of {{p}}, in] {{n}} {_LINES}:",
    f"[when does {_WHO} do what|what happens when]? {{N}} {_LINES}[|, please].", f"{_WHO}, {_PLAN}, {{n}} {_LINES}",
    f"I [write|am writing] a [story|novel|play|film] about {_WHO}. [I need|Give me|Write] [the|a] {_PLAN} with "
    f"{{n}} {_LINES}.",
    f"[help me plan|organize|arrange|plan|schedule] the day of {_WHO}: {{n}} {_LINES}{_EACH}.",
    f"{_WHO} needs a {_PLAN}. {{N}} {_LINES}[|, please].",
    f"[split|divide] the day of {_WHO} into {{n}} {_LINES}{_EACH}.",
    f"what is {_WHO} going to do today? {{N}} {_LINES}.",
    f"think of a day of {_WHO}. [Write|Give|List] {{n}} {_LINES}{_EACH}.",
)
UNSEEN_PLAN_ASKS = (
    "I am writing a game. One of the villagers: {x} Fill this villager's hours today using exactly {n} rows.",
    "{x}\nImagine you are {p}. Which {n} entries are in your calendar now?",
    "Meet {p}. {x} Could you lay out an ordinary day hour by hour? Stick to {n} items.",
)
_JSON = "[as JSON|in JSON|as a JSON object|in the JSON format|in JSON form]"
JSON_ASKS = (
    f"plan the day of {_WHO} {_JSON} [with|in] {{n}} {_LINES}.",
    f"[write|give me|make|return] the {_PLAN} {_JSON}, {{n}} {_LINES}.",
    f"{_MAKE} a {_PLAN} [for|of] {_WHO} {_JSON} with {{n}} {_LINES}.",
    f"{_PLAN} {_JSON}, {{n}} {_LINES}[|.|:|, please]",
    f"return a JSON object with name and plan, {{n}} {_LINES}.",
    f"[what does {_WHO} do today? |]JSON with name and plan, {{n}} {_LINES}.",
    f"[can|could] you plan the day of {_WHO} {_JSON}? {{N}} {_LINES}.",
    f"{_JSON}, please: the day of {_WHO} in {{n}} {_LINES}.",
    f"describe the day of {_WHO} {_JSON}. [Use|Write|Make] {{n}} {_LINES}.",
)

HOUR_ASKS = (
    "[and |so |]what is {p} doing at {t}?",
    "at {t}, what [is {p} doing|does {p} do|occupies {p}]?",
    "[it is|the clock says|now it is|suppose it is] {t}. What is {p} doing[| now]?",
    "what [would|will] {p} be [doing|busy with] at {t}?", "[tell me|say] what {p} [is doing|does] at {t}.",
    "{p} at {t}?",
    "[what happens|what is going on] at {t}?", "what is {p} busy with at {t}?",
    "[I call|I meet|I visit|I look for] {p} at {t}. What is {p} doing?",
    "[can|could] you [tell me|say] what {p} is doing at {t}?", "how does {p} spend the time at {t}?",
    "look at the plan. What is {p} doing at {t}?",
)
NEXT_ASKS = (
    "{p} is {d}. [What does {p} do next|What is next|What comes next|What will {p} do then|And then|What follows]?",
    "what [comes|happens|follows|is next] after {t}?", "what [will {p} do|does {p} do|is {p} going to do] after {t}?",
    "[right now|now|at the moment] {p} is {d}. [What is next|What comes next|What does {p} do next|What happens then]?",
    "[what is the next step|what is the next thing|what does {p} do next] after {d}?",
    "after {d}, what [does|will] {p} do?",
    "[tell me|say] what {p} does [next |]after {d}.", "[it is|now it is] {t}. What [will|does] {p} do next?",
    "what is next for {p} after {t}?",
    "{p} [has finished|is done with|stops] {d}. [What now|What is next|What comes now]?",
    "which line comes after {t}?",
)

_RATE = "[rate|score|weigh|grade|judge|value|evaluate]"
_THIS = "[this memory|this|the memory|this event|the event|what happened|the following|this moment]"
_BIG = "[important|big|significant|meaningful|serious|memorable|weighty|special]"
_SCALE = "[from 1 to 10|on a scale from 1 to 10|on a scale of 1 to 10|between 1 and 10|from one to ten|(1 to 10)" \
         "|(1-10)" \
         "|out of 10|as a number from 1 to 10|in a number from 1 to 10]"
_ENDS = "[1 is daily life and 10 changes a life|1 is nothing and 10 is the greatest|1 is boring and 10 is a wedding" \
        "|1 is small and 10 is huge|1 is brushing teeth and 10 is a first child|10 is the most important|1 is the " \
        "least]"
RATING_ASKS = (
    f"how {_BIG} is {_THIS} {_SCALE}?", f"how {_BIG} is {_THIS}, {_SCALE}?", f"{_SCALE}, how {_BIG} is {_THIS}?",
    f"{_RATE} {_THIS} {_SCALE}[|, please].",
    f"{_RATE} the [importance|weight|meaning|significance] of {_THIS} {_SCALE}.",
    f"[give|say|tell me|write|what is|I need|find] the importance of {_THIS} {_SCALE}.", f"importance {_SCALE}[:|?|]",
    f"how much does {_THIS} matter {_SCALE}?",
    f"how much will {_THIS} [matter|mean|count] in [ten|five|twenty] years, {_SCALE}?",
    f"[give|write|choose|pick|name|answer with] a number [from 1 to 10|between 1 and 10] "
    f"for [the importance of |]{_THIS}.", f"{_RATE} {_THIS}: {_ENDS}.", f"how {_BIG} is {_THIS}? {_ENDS}.",
    f"[can|could|would] you [please |]{_RATE} {_THIS} {_SCALE}?", "importance?", "how important is it, 1 to 10?",
    f"with a number, say how {_BIG} {_THIS} is. {_ENDS}.",
    f"what [number|score|mark] from 1 to 10 [would you give|do you give] {_THIS}?",
    f"I remember this well. How {_BIG} is it {_SCALE}?", f"how [long|strongly] will one think of {_THIS}, {_SCALE}?",
    f"does {_THIS} matter? [Rate|Score|Judge|Grade] it {_SCALE}.",
    f"[on|using] a scale where {_ENDS}, how {_BIG} is {_THIS}?",
)
UNSEEN_RATING_ASKS = (
    "Where 1 means dull and 10 means deeply moving, which integer suits what happened here? {x}",
    "{x}\nPut a value between 1 and 10 on the weight of this event.",
)

REMEMBER_LEADS = (
    "[memories of {w}|the memory of {w}|what {w} remembers|notes of {w}|diary of {w}|{w}, memories]:",
    "{w} [remembers|knows|has seen|noted|keeps in mind|wrote down] [this|the following|these things|a few things]:",
    "[here is|this is] what {w} [remembers|knows]:", "[in|from] the memory of {w}:",
)
REMEMBER_ASKS = (
    "what does {w} [remember|know|recall|have in mind] [about|of] {o}?",
    "[what|which things] about {o} does {w} [remember|know|recall]?",
    "[tell me|list|say|write|show me] [all that|what|everything] {w} [remembers|knows|recalls] about {o}.",
    "{w} [thinks of|meets|sees|hears of] {o}. [What comes to mind|What does {w} remember|What does {w} know]?",
    "what is [known|remembered|said|in the memory|there] about {o}?",
    "[memories|all memories|everything] about {o}[, please|?|:|]",
    "[who is|what about] {o}? [What does {w} know|What does {w} remember|What is known]?",
    "does {w} know [anything|something] about {o}?",
    "[find|pick out|choose|select] [the memories|the lines|all memories] about {o}.", "{o}?",
    "which memories are about {o}?",
    "[can|could] you [tell me|list] what {w} [knows|remembers] about {o}?",
)
