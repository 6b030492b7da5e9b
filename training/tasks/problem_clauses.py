"""Clauses of word problems by what they do: each world has its own ways to say that something is there, comes or goes.

Alternatives stand in brackets; slots as in `Teller`; {x} and {y} are the numbers of the clause. A clause has no full
stop inside, so that clauses can follow one another in any manner.
"""

from __future__ import annotations

MORE = "[{x} more|{x} more {t}|another {x}|another {x} {t}|{x} other {t}|{x} new {t}|{x} new ones|{x} additional {t}]"
SOME = "[{x} of them|{x} {t}|{x} of the {t}|{x}]"
EACH = ("[ with {y} {t} in each| with {y} {t} each| of {y} {t}| of {y} {t} each| with {y} {t} in each {box}|, each "
        "with {y} {t}| that hold {y} {t} each| with {y} {t} in every one|, {y} {t} in each| containing {y} {t} each]")
PEOPLE = "[friends|children|people|cousins|neighbors|classmates|players|guests|kids]"
EQUALLY = "[equally|evenly|fairly|in equal parts]"
REST = "[the rest|the others|the remaining {t}|the other {t}]"
THEM = "[them|all of them|the {t}|all the {t}]"
THEY = "[they|all of them|the {t}|all the {t}]"
NOW = "[| now| in the end| after that| then| at the end| at the end of the day| afterwards]"
SUM = "[| in total| in all| altogether| all together| now]"
ANY_LEFT = (
    "how many {t} {t_be} [left|left over|left now|left in the end|still there|there now|there in the end]?",
    "how many {t} {t_remain}?", "how many {t_be} left?", "how many {t} does that leave?", "how many remain?",
    "[find|give|tell me|work out|calculate|what is] the number of {t} [that are left|left|that remain|in the end].",
)
ANY_SUM = (
    "how many {t} [are there|is that|are that|does that make|do we get|are these] [in total|in all|altogether|now]?",
    "how many {t} are there?", "how many does that make?", "how many are there [altogether|in total|in all]?",
    "what is the [total|total number of {t}|number of all {t}]?",
    "[find|give|tell me|work out|calculate|what is] the [total number of {t}|number of {t} altogether].",
    "count [all the {t}|all {t}|them all].",
)

OWN = {
    "have": (
        "{s} {have} {x} {t}", "{s} {have} {x} {t}",
        "{s} [{own}|{start} with|{begin} with|{have} a collection of|{collect}|{have} exactly|{keep}|{carry}] {x} {t}",
        "{s} [{buy}|{find}|{get}|{pick} up|{gather}|{make}|{receive}|{pack}] {x} {t}",
        "there {t_be} {x} {t} in {poss} [bag|room|house|kitchen|drawer|garage|basket|box|suitcase|cupboard]",
        "{x} {t} {t_belong} to {whom}", "{poss} [bag|box|drawer|basket|shelf|collection] {m_hold} {x} {t}"),
    "gain": (
        "{s} [{buy}|{get}|{find}|{receive}|{order}|{collect}|{pick} up|{win}|{make}|{bring} home|{add}|{discover}|"
        "{fetch}|{gather}|{take}] " + MORE,
        "{m} [{m_give}|{m_hand}|{m_bring}|{m_send}|{m_buy}|{m_pass}] {him} " + MORE,
        "{s} [{get}|{receive}|{borrow}|{buy}] " + MORE + " from {m}",
        MORE + " [{t_come} from {m}|{t_be} added|{t_arrive}|{t_come} in the mail|{t_be} found|{t_be} bought]",
        "{m} {m_add} " + MORE),
    "lose": (
        "{s} [{give}|{hand}|{sell}|{send}|{lend}|{pass}|{bring}] " + SOME + " to {m}",
        "{s} {give} {m} " + SOME,
        "{s} [{lose}|{sell}|{give} away|{throw} away|{drop}|{break}|{use}|{use} up|{donate}|{remove}|{put} aside|"
        "{hand} out|{take} away|{part} with] " + SOME,
        "{m} [{m_take}|{m_borrow}|{m_get}|{m_steal}|{m_lose}|{m_break}|{m_remove}] {x} of [them|the {t}]",
        SOME + " [{t_be} lost|{t_be} sold|{t_be} broken|{t_be} taken away|{t_be} thrown away|{t_be} used|{t_get} lost|"
        "{t_disappear}|{t_go} to {m}|{t_be} given away|{t_go} missing|{t_break}]"),
    "packs": (
        "{s} [{have}|{buy}|{own}|{get}|{fill}|{order}|{carry}|{bring}|{find}|{pick} up|{pack}] {x} {boxes}" + EACH,
        "there {t_be} {x} {boxes}" + EACH, "{s} {put} {y} {t} into each of {x} {boxes}",
        "[each|every|one] {box} [{m_hold}|{m_contain}|{m_have}] {y} {t} and {s} [{have}|{buy}|{get}] {x} {boxes}",
        "in each of {x} {boxes} there {t_be} {y} {t}", "{x} {boxes} [{t_hold}|{t_contain}] {y} {t} each",
        "there {t_be} {y} {t} in [one|each|every] {box} and {s} [{have}|{buy}|{get}] {x} [of these|such] {boxes}",
        "{s} [{make}|{lay} out|{set} up] {x} [rows|groups|piles|stacks] of {y} {t}"),
    "morepacks": (
        "{s} [{buy}|{get}|{fill}|{order}|{find}|{bring} home|{receive}|{pick} up] {x} {boxes}" + EACH,
        "{s} [{buy}|{get}|{order}|{find}] {x} [more|new|other] {boxes}" + EACH,
        "{m} [{m_give}|{m_bring}|{m_send}|{m_buy}] {him} {x} {boxes}" + EACH,
        "{x} [more|new] {boxes} of {y} {t} {t_be} [added|bought|delivered]"),
    "left": (
        *ANY_LEFT, "how many {t} {do} {s} [have left|still have|have now|have in the end|have then|keep|end up with]?",
        "how many {do} {s} [have left|still have|have now|keep]?", "how many {t} {do} {s} have" + NOW + "?",
        "what is the number of {t} {s} {have}" + NOW + "?"),
    "sum": (
        *ANY_SUM, "how many {t} {do} {s} have" + SUM + "?", "how many {do} {s} have" + SUM + "?",
        "how many {t} {do} {s} [end up with|own now|own altogether]?"),
    "share": (
        "{s} [{share}|{divide}|{split}] " + THEM + " " + EQUALLY + " [among|between|with] {x} " + PEOPLE,
        "{x} " + PEOPLE + " [{t_share}|{t_divide}|{t_split}] " + THEM + " " + EQUALLY,
        THEY + " {t_be} [shared|divided|split|handed out] " + EQUALLY +
        " [among|to] {x} " + PEOPLE,
        "{s} {give} the same number to each of {x} " + PEOPLE + " until none {t_be} left"),
    "each": (
        "how many {t} does [each one|one of them|each person|each of them|everyone] [get|receive|have]?",
        "how many does each get?", "how many {t} [are in one share|is that for each|is that each|are there for each]?",
        "[find|give|tell me|what is] the number of {t} [for each|per person|that each one gets]."),
    "fill": (
        "{s} [{put}|{pack}|{sort}|{place}] " + THEM + " [equally|evenly|in equal numbers] into {x} {boxes}",
        THEY + " {t_be} [put|packed|placed] [equally|evenly] into {x} {boxes}"),
    "inbox": (
        "how many {t} [are|go|are there] [in|into] [each {box}|one {box}|every {box}]?",
        "how many does each {box} [hold|contain|have]?", "what is the number of {t} [per|in each] {box}?"),
    "bundle": (
        "{s} [{pack}|{put}|{sort}] them into {boxes} of {x}", "{x} {t} [go into|fit into|fill] [one|each] {box}",
        "each {box} [{m_hold}|{m_take}] {x} {t}"),
    "boxes": (
        "how many {boxes} [are there|is that|does that make|are full]" + "[| now| in all| in total| altogether]?",
        "how many {boxes} {do} {s} [have|fill]" + "[| in all| in total| in the end]?"),
    "halve": (
        "{s} [{give}|{sell}|{send}|{hand}] half of them to {m}",
        "half of [them|the {t}] {t_be} [sold|lost|given away|used|broken]",
        "{s} [{lose}|{sell}|{give} away|{use}|{throw} away] half of [them|the {t}]",
        "{m} {m_take} half of [them|the {t}]"),
    "other": ("{m} {m_have} {x}[ {t}|]", "{m} [{m_own}|{m_collect}|{m_find}|{m_get}] {x}[ {t}|]"),
    "third": ("{w} {m_have} {x}[ {t}|]", "{w} [{m_own}|{m_collect}|{m_find}|{m_get}] {x}[ {t}|]"),
    "plus": (
        "{m} {m_have} {x} more[| {t}] than {n}", "{m} {m_have} {x} {t} more than {n}",
        "{m} {m_have} {x} more than that",
        "{m} [{m_own}|{m_find}|{m_collect}|{m_get}] {x} more[| {t}] than {n}"),
    "minus": (
        "{m} {m_have} {x} [fewer|less] than {n}", "{m} {m_have} {x} fewer {t} than {n}",
        "{m} {m_have} {x} [fewer|less] than that", "{m} [{m_own}|{m_find}|{m_collect}|{m_get}] {x} fewer than {n}"),
    "times": (
        "{m} {m_have} {x} times as many[| {t}][| as {n}]", "{m} {m_have} {x} times that [number|many]",
        "{m} [{m_own}|{m_find}|{m_collect}|{m_get}] {x} times as many[| {t}] as {n}"),
    "fewer": ("{w} {m_have} {x} [fewer|less] than {m}", "{w} {m_have} {x} {t} [fewer|less] than {m}",
              "{w} [{m_own}|{m_find}|{m_collect}|{m_get}] {x} fewer[| {t}] than {m}"),
    "furthermore": ("{w} {m_have} {x} more than {m}", "{w} {m_have} {x} {t} more than {m}",
                    "{w} [{m_own}|{m_find}|{m_collect}|{m_get}] {x} more[| {t}] than {m}"),
    "his": ("how many {t} does {m} have?", "how many does {m} have?", "what is {m}'s number of {t}?"),
    "hers": ("how many {t} does {w} have?", "how many does {w} have?", "what is {w}'s number of {t}?"),
    "both": ("how many {t} do the two have [together|in total|in all|altogether]?",
             "how many {t} [are there|is that|does that make] [together|in total|altogether|in all]?",
             "how many do both have together?", "what is the total number of {t}?",
             "how many {t} do they [have|own] [together|in total|in all|altogether]?"),
    "all": ("how many {t} do [they all|all three|the three] have [together|in total|in all|altogether]?",
            "how many {t} [are there|is that|does that make] [together|in total|altogether|in all]?",
            "what is the total number of {t}?"),
    "ahead": ("how many more {t} {do} {n} have than {m}?", "by how many {t} {be} {n} ahead of {m}?",
              "how many {t} more than {m} {do} {n} have?", "what is the difference[ between them|]?",
              "how many {t} does {m} need to catch up?", "how many [fewer|less] {t} does {m} have than {n}?"),
}

def _of_rest(templates: tuple[str, ...]) -> tuple[str, ...]:
    """The same about what is left."""
    others = REST.replace("the rest|", "")
    return tuple(text.replace(THEM, REST).replace(THEY, others) for text in templates if THEM in text or THEY in text)


OWN |= {"sharerest": _of_rest(OWN["share"]), "fillrest": _of_rest(OWN["fill"])}

PLACE = {
    "have": (
        "there {t_be} {x} {t} on the {place}", "{x} {t} [{t_be}|{t_lie}] on the {place}",
        "the {place} {m_have} {x} {t}", "on the {place} there {t_be} {x} {t}"),
    "gain": (
        "{s} [{put}|{add}|{lay}|{place}] " + MORE + " there", "{s} [{add}|{bring}] " + MORE,
        MORE + " {t_be} [added|brought|delivered|put there]", "somebody [{m_add}|{m_bring}] " + MORE),
    "lose": (
        "{s} [{take}|{remove}|{carry}] " + SOME + " away", "{s} {take} " + SOME,
        SOME + " {t_be} [taken|taken away|removed|sold|stolen|broken|used|carried off]", "somebody {m_take} " + SOME,
        SOME + " [{t_fall} down|{t_disappear}|{t_break}|{t_go} missing]"),
    "left": ANY_LEFT, "sum": ANY_SUM,
}

CROWDS = tuple({
    "have": ("there {t_be} {x} {t} {at}", "{x} {t} {t_be} {at}", "{at} there {t_be} {x} {t}"),
    "gain": (f"[{{x}} more|{{x}} more {{t}}|another {{x}}|{{x}} new {{t}}|{{x}} others|{{x}}] [{come}]",),
    "lose": (f"[{{x}} of them|{{x}} {{t}}|{{x}} of the {{t}}|{{x}}] [{go}]",),
    "left": (*ANY_LEFT, f"how many {{t}} are {{at}}{NOW}?", "how many {t} are there [now|then|in the end]?"),
    "sum": (*ANY_SUM, "how many {t} are {at} [now|in total|altogether]?"),
    "things": (things,), "at": (at,),
} for things, at, come, go in (
    ("[people|passengers|tourists]", "on [the bus|a bus|a train|the tram|a boat|the ferry|the ship|a plane]",
     "{t_get} on|{t_come} on board|{t_get} in|{t_board}|{t_join} them",
     "{t_get} off|{t_leave}|{t_get} out|{t_step} off"),
    ("[people|guests|children|visitors|students|men|women|customers]",
     "in [the cafe|a shop|the museum|a room|the library|the park|a hall|the classroom|the cinema|the zoo|a restaurant]",
     "{t_come} in|{t_arrive}|{t_enter}|{t_join} them|{t_walk} in|{t_show} up",
     "{t_leave}|{t_go} home|{t_go} out|{t_walk} away|{t_go} away|{t_say} goodbye"),
    ("[birds|sparrows|pigeons|crows|owls]", "[in a tree|in the tree|on the roof|on a wire|on the fence]",
     "{t_land} there|{t_arrive}|{t_fly} in|{t_join} them", "{t_fly} away|{t_fly} off|{t_leave}|{t_disappear}"),
    ("[ducks|swans|geese|frogs|fish]", "in [the pond|a lake|the lake|the river]",
     "{t_come}|{t_arrive}|{t_join} them|{t_swim} up", "{t_swim} away|{t_leave}|{t_disappear}"),
    ("[sheep|cows|horses|goats|rabbits]", "[in the field|on the farm|in the barn|on the meadow]",
     "{t_come}|{t_be} born|{t_be} bought|{t_arrive}|{t_join} them", "{t_be} sold|{t_run} away|{t_leave}|{t_escape}"),
    ("[cars|trucks|bicycles|taxis|vans]", "in [the parking lot|a garage|the street|the car park]",
     "{t_arrive}|{t_come}|{t_be} parked there|{t_drive} in", "{t_drive} away|{t_leave}|{t_be} moved away|{t_go}"),
    ("[messages|emails|photos|files|songs]", "on [the phone|my phone|the computer|the tablet]",
     "{t_come} in|{t_be} added|{t_arrive}|{t_be} saved", "{t_be} deleted|{t_be} removed|{t_be} erased|{t_get} lost"),
    ("[liters of water|liters of oil|liters of fuel|liters of milk]", "in [the tank|a tank|the barrel|a bucket]",
     "{t_be} added|{t_be} poured in|{t_flow} in|{t_be} pumped in", "{t_be} used|{t_leak} out|{t_run} out|{t_be} taken "
     "out|{t_be} poured away|{t_flow} out"),
))

PURSE = {
    "have": ("{s} [{have}|{own}|{start} with|{begin} with] {x} {cur}",
             "{s} {have} {x} {cur} in {his} [pocket|purse|wallet]",
             "there {t_be} {x} {cur} in {poss} [purse|wallet|pocket|bank account|piggy bank]"),
    "gain": ("{s} [{get}|{earn}|{find}|{win}|{receive}|{save}|{make}] [{x} more|{x} more {cur}|another {x} {cur}|{x} "
             "{cur}]",
             "{m} [{m_give}|{m_lend}|{m_send}|{m_pay}] {him} [{x} more|{x} {cur}|another {x}]"),
    "lose": ("{s} [{spend}|{pay}] {x} {cur} [on|for] [a book|lunch|a toy|a ticket|some food|a shirt|a game|a gift|"
             "shoes]",
             "{s} [{lose}|{spend}|{give} away|{pay}|{donate}|{use}] [{x}|{x} {cur}|{x} of them]",
             "{s} [{give}|{lend}|{send}|{pay}] {m} {x} {cur}",
             "a [book|meal|ticket|cap|toy] {m_cost} {him} {x} {cur}"),
    "left": ("how [many {cur}|much money] {do} {s} [have left|still have|have now|have in the end|keep]?",
             "how [many {cur} are|much money is] left?", "how much {do} {s} have left?", "how many {cur} remain?"),
    "sum": ("how [many {cur}|much money] {do} {s} have" + SUM + "?",
            "how many {cur} is that [in total|altogether|now]?"),
}

COUNTER = "[for|at] {y} {cur} [each|apiece|a piece]"
SHOP = {
    "cart": (
        "{s} [{buy}|{order}|{get}|{pick} up|{take}|{choose}] {x} {t} " + COUNTER,
        "{s} [{buy}|{order}|{get}|{take}] {x} {t} that {t_cost} {y} {cur} each",
        "[one|each|every|a single] {o} {m_cost} {y} {cur} and {s} [{buy}|{take}|{order}|{need}] {x} [of them|{t}]",
        "the price of [one|a single] {o} {m_be} {y} {cur} and {s} [{buy}|{take}|{order}] {x} [of them|{t}]",
        "{s} [{pay}|{spend}] {y} {cur} for each of {x} {t}"),
    "cart2": (
        "{s} [{buy}|{order}|{get}|{take}] {x} {u} " + COUNTER, "{s} also [{buy}|{order}|{get}] {x} {u} " + COUNTER,
        "one {v} {m_cost} {y} {cur} and {s} [{buy}|{take}|{order}] {x} [of them|{u}]"),
    "item": ("{s} also [{buy}|{take}|{get}] a [hat|coat|lamp|bag|shirt|toy|book|scarf|clock] for {x} {cur}",
             "{s} [{buy}|{take}] a [hat|coat|lamp|bag|shirt|book] that {m_cost} {x} {cur}",
             "{s} [{spend}|{pay}] {x} {cur} [on|for] [a meal|lunch|a drink|a ticket|a hat]"),
    "one": ("{s} {buy} a [hat|lamp|bag|shirt|toy|book|scarf|clock|game] for {x} {cur}",
            "a [hat|lamp|bag|toy|book|game|ball] {m_cost} {x} {cur}", "{s} {buy} something that {m_cost} {x} {cur}"),
    "pays": ("{s} [{pay} with|{hand} over|{give} the seller|{give} the cashier|{put} down] {x} {cur}",
             "{s} {pay} with a note of {x} {cur}"),
    "money": ("{s} [{have}|{bring}|{take} along|{start} with] {x} {cur}", "{s} {go} shopping with {x} {cur}",
              "{s} {have} {x} {cur} [to spend|in {his} pocket|in {his} purse]"),
    "change": ("how much [change|money] {do} {s} get back?", "how many {cur} {do} {s} get back?",
               "how much change [is that|is there|{do} {s} get|does the seller give back]?", "what is the change?"),
    "rest": ("how [much money|much|many {cur}] {do} {s} [have left|still have|have afterwards]?",
             "how many {cur} [are left|remain]?", "how much money [is left|remains]?"),
    "bill": ("how [much|much money|many {cur}] {do} {s} [pay|spend|need][| in total| altogether| in all]?",
             "how [much|many {cur}] [is that|does that cost|does everything cost][| in total| altogether]?",
             "what is the [total|bill|total price|total cost|sum]?", "how much is the bill?",
             "[find|calculate|tell me] the [total cost|total price|price of everything]."),
}
