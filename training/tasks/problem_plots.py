"""Which clauses, in which order, tell a word problem of each structure.

PLOTS name the clauses of the worlds; TALES hold clauses of their own, with the names of the structure's numbers.
"""

from __future__ import annotations

from .problem_clauses import CROWDS, NOW, OWN, PLACE, PURSE, SHOP, SUM

PLOTS = {
    "gets more": ("have a; gain b; sum",),
    "gives away": ("have a; lose b; left",),
    "groups of": ("packs a b; sum",),
    "shared equally": ("have a; share b; each", "have a; fill b; inbox"),
    "how many more": ("have a; other b; ahead",),
    "more or older than": ("have a; plus b; his",),
    "price": ("cart a b; bill",),
    "change of one thing": ("one a; pays c; change", "money c; one a; rest"),
    "some and packs": ("have c; morepacks a b; sum", "packs a b; gain c; sum"),
    "packs, some given away": ("packs a b; lose c; left",),
    "gets and gives": ("have a; gain b; lose c; left",),
    "two lots taken": ("have a; lose b; lose c; left",),
    "put together and share": ("have a; gain b; share c; each", "have a; gain b; fill c; inbox"),
    "keep some and share": ("have a; lose b; sharerest c; each", "have a; lose b; fillrest c; inbox"),
    "more than, total": ("have a; plus b; both",),
    "fewer than, total": ("have a; minus b; both",),
    "times as many, total": ("have a; times b; both",),
    "bus stop": ("have a; lose b; gain c; sum",),
    "three in a chain": ("have a; plus b; fewer c; hers",),
    "three added": ("have a; other b; third c; all", "have a; gain b; gain c; sum"),
    "change": ("cart a b; pays c; change", "money c; cart a b; rest"),
    "one thing and several": ("cart a b; item c; bill", "one c; cart a b; bill"),
    "two kinds bought": ("cart a b; cart2 c d; bill",),
    "packs, more, fewer": ("packs a b; gain c; lose d; left",),
    "two kinds and change": ("money e; cart a b; cart2 c d; rest", "cart a b; cart2 c d; pays e; change"),
    "half": ("have a; halve; left",),
    "several times as many": ("have a; times b; his",),
    "half, then some gone": ("have a; halve; lose c; left",),
    "half, then some more": ("have a; halve; gain c; sum",),
    "three people, total": ("have a; plus b; furthermore c; all",),
}
EVENTS = frozenset(("gain", "lose", "morepacks", "share", "fill", "halve", "sharerest", "fillrest",
                    "item", "pays"))
WORLDS = (OWN, PLACE, *CROWDS, PURSE, SHOP)

TALES: dict[str, tuple[tuple[tuple[str, ...], ...], ...]] = {
    "rows, some taken": ((
        ("there {t_be} {a} rows [of {b} seats|with {b} seats each|of {b} chairs each] in [the|a] [hall|cinema|theater]",
         "a [hall|cinema|theater|room|bus] {m_have} {a} rows [of|with] {b} [seats|chairs]",
         "{s} {put} up {a} rows of {b} chairs", "each of {a} rows {m_have} {b} [seats|chairs]"),
        ("{c} [seats|chairs] {t_be} [taken|in use|occupied|broken]",
         "{c} [people|guests|children] [{t_sit} down|{t_take} a seat|{t_come} and {t_sit} down]"),
        ("how many [seats|chairs|places] are [free|empty|still free|left|not taken]?",
         "how many [seats|chairs] remain?")),),
    "rows and some more": ((
        ("{s} {plant} {a} rows of {b} trees", "there {t_be} {a} rows of trees, {b}[ trees|] in each row",
         "a [garden|park|field] {m_have} {a} rows [of|with] {b} trees", "{b} trees {t_stand} in each of {a} rows"),
        ("{c} more trees {t_stand} [by the wall|near the gate|at the house]", "{s} {plant} [another {c}|{c} more]",
         "{c} other trees {t_grow} [nearby|there]", "{c} trees {t_be} already there"),
        ("how many trees [are there|is that|does that make]" + SUM + "?", "what is the total number of trees?")),),
    "dozens": ((
        ("{s} [{buy}|{have}|{get}|{collect}] {a} dozen eggs", "there {t_be} {a} dozen eggs in [the kitchen|a basket]"),
        ("{s} [{use}|{eat}|{sell}|{break}|{give} away|{cook}] {c} of them",
         "{c} [of them|eggs] [{t_break}|{t_be} eaten|{t_be} used|{t_be} sold]"),
        ("how many eggs [are left|remain|are still there]?", "how many eggs {do} {s} [have left|still have]?")),),
    "teams": ((
        ("there {t_be} {a} [boys|girls] and {b} [others|more children] in a [class|camp|club|group]",
         "{a} children {t_come} [by bus|by car] and {b} {t_come} [by train|on foot]",
         "a [class|school|club] {m_have} {a} [girls|older children] and {b} [boys|younger children]"),
        ("[they|the children] [{t_form}|{t_make}] [teams|groups] of {c}", "{c} children {t_make} one [team|group]",
         "[they|the children] {t_be} [split|divided] into [teams|groups] of {c}"),
        ("how many [teams|groups] [are there|is that|does that make|can they make]?",)),),
    "third day": ((
        ("{s} [{sell}|{make}|{find}|{pick}|{collect}] {a} {t} [in three days|from Monday to Wednesday]",
         "[in three days|from Monday to Wednesday] {s} [{sell}|{make}|{find}|{collect}] {a} {t}"),
        ("{b} of them {t_be} from Monday and {c} [of them |]from Tuesday", "on Monday it {m_be} {b} and on Tuesday {c}",
         "Monday {m_bring} {b} and Tuesday {m_bring} {c}", "{b} {t_come} on Monday and {c} on Tuesday"),
        ("how many {t} were [there|left] [on|for] Wednesday?", "how many are [there|left] for Wednesday?",
         "what is the number for Wednesday?")),),
    "points": ((
        ("{s} [{win}|{play}] {a} [rounds|games] and {get} {b} points [in each|for each]",
         "{s} {get} {b} points for [each|every] [star|goal|coin] and {find} {a}".replace("|goal", ""),
         "in each of {a} [rounds|games] {s} [{get}|{win}|{earn}] {b} points"),
        ("{s} [{get}|{win}|{receive}] [a bonus of {c} points|{c} extra points|{c} more points]",
         "{c} [extra|bonus|more] points {t_be} added"),
        ("how many points {do} {s} have" + SUM + "?", "how many points [is that|does that make]" + SUM + "?",
         "what is the [final score|total|score]?")),),
    "share and use": ((
        ("{a} {t} {t_be} [shared|divided|split] [equally|evenly] among {b} [people|children], and {n} {be} one of them",
         "{n} {be} one of {b} [people|children|friends] who [{t_share}|{t_split}|{t_divide}] {a} {t} equally"),
        ("{s} [{eat}|{give} away|{use}|{lose}] {c} of {his} {t}", "{s} {give} {c} of {his} {t} to {m}"),
        ("how many {t} {do} {s} [have left|still have|keep]?",)),),
    "pack and add": ((
        ("{s} [{pack}|{put}|{sort}] {a} {t} into {boxes} of {b}", "{s} {put} {a} {t} into {boxes}, {b} in each",
         "{a} {t} {t_be} [packed|put] into {boxes}, {b} in each {box}"),
        ("there {t_be} already {c} [other |full |]{boxes}", "{s} [{get}|{find}|{add}|{bring}] {c} more {boxes}",
         "{m} {m_bring} {c} more {boxes}"),
        ("how many {boxes} [are there|is that|does that make]" + SUM + "?", "what is the total number of {boxes}?")),),
    "who has more now": ((
        ("{s} {have} {a} {t}", "{s} [{own}|{start} with|{collect}] {a} {t}"),
        ("{m} {m_have} {b}", "{m} {m_have} {b} {t}", "{m} [{m_own}|{m_collect}] {b}"),
        ("{n} [{get}|{find}|{buy}|{receive}|{collect}|{win}] {c} more[ {t}|]", "{n} {get} another {c}"),
        ("how many more {t} [{do} {n} have than {m}|than {m} {do} {n} have] now?",
         "how many {t} is {m} behind now?")),),
}


def _rate(act: str, many: str, each: str, unit: str) -> tuple[str, ...]:
    """So many {b} of a unit in each of {a} days or the like."""
    single = "an" if each == "hour" else "a"
    return (f"{act} {{b}} {unit} [{single}|each|every|per] {each} for {{a}} {many}",
            f"for {{a}} {many} {act} {{b}} {unit} [{single}|each|every|per] {each}",
            f"every {each} {act} {{b}} {unit} and {{do}} this for {{a}} {many}",
            f"{act} {{b}} {unit} in [each|every one] of {{a}} {many}")


TALES |= {
    "saving, still missing": ((
        ("{s} [{want} to buy|{want}|{wish} for|{dream} of] a [bicycle|guitar|phone|game|watch|camera|skateboard] that "
         "{m_cost} {c} {cur}", "{s} [{need}|{want} to have] {c} {cur}",
         "a [bicycle|guitar|watch|trip|radio|scooter] {m_cost} {c} {cur}"),
        _rate("{s} [{save}|{put} aside|{set} aside|{lay} by|{earn}]", "weeks", "week", "{cur}"),
        ("how [much|many {cur}|much money] {do} {s} still need?", "how many {cur} are [missing|still missing]?",
         "how much more money {do} {s} need?", "how many more {cur} {do} {s} need?")),),
    "weeks to save": ((
        ("{s} [{want} to buy|{want}|{need}] a [bicycle|guitar|phone|tent|watch|camera] for {a} {cur}",
         "a [bicycle|guitar|watch|trip|camera] {m_cost} {a} {cur}", "{s} {need} {a} {cur}"),
        ("{s} already {have} {b} {cur}", "{s} {have} {b} {cur}", "{s} {have} {b} {cur} so far"),
        ("{s} [{save}|{put} aside|{add}] {c} {cur} [a|each|every|per] week",
         "every week {s} [{save}|{put} aside|{add}|{get}] {c} {cur}"),
        ("how many weeks [does it take|will it take|is that]?", "[for how many|how many] weeks {do} {s} have to save?",
         "after how many weeks {do} {s} have enough?")),),
    "there and back": ((
        ("{s} {live} {b} kilometers from [school|work|the office|the lake|the station]",
         "it {m_be} {b} kilometers from home to [school|work|the office|the beach]",
         "the way to [school|work|the office|the park] {m_be} {b} kilometers long"),
        ("{s} [{walk}|{cycle}|{drive}|{go}|{ride}] there and back [every day|each day|once a day] for {a} days",
         "for {a} days {s} [{walk}|{cycle}|{drive}|{go}] there and back [every day|once a day]",
         "{s} {go} there and {come} back on each of {a} days"),
        ("how many kilometers [is that|does that make|are these]" + SUM + "?", "how far is that altogether?",
         "how many kilometers {do} {s} [go|travel|cover][| in total| altogether]?")),),
    "drive and drive on": ((
        _rate("{s} [{drive}|{ride}|{travel}|{go}]", "hours", "hour", "kilometers"),
        ("{s} [{walk}|{drive}|{go}|{ride}|{travel}] [another {c} kilometers|{c} more kilometers|{c} kilometers more]",
         "[another {c} kilometers|{c} more kilometers] {t_follow}"),
        ("how [far|many kilometers] [is that|{do} {s} travel|{do} {s} go][| in total| altogether| in all]?",
         "how long is the whole [way|trip|journey] in kilometers?")),),
    "way still to go": ((
        ("[a|the] [trip|journey|path|trail|road|route] {m_be} {c} kilometers long",
         "{s} {want} to go {c} kilometers", "it {m_be} {c} kilometers to [the sea|the city|the next town|the "
                                            "mountains]"),
        _rate("{s} [{walk}|{hike}|{cycle}|{run}|{go}|{ride}]", "hours", "hour", "kilometers"),
        ("how many kilometers [are left|remain|are still to go|are still missing]?",
         "how far [is it still|{do} {s} still have to go|is the rest]?")),),
    "pages left": ((
        ("[a|the] [book|novel|story|script] {m_have} {c} pages",
         "{s} [{have} to read|{want} to read|{begin} a book with] {c} pages"),
        _rate("{s} [{read}|{finish}|{study}]", "days", "day", "pages"),
        ("how many pages [are left|remain|are still to read|are unread]?",
         "how many pages {do} {s} still have to read?",
         "how many pages are left in the book?")),),
    "days to read": ((
        ("[a|the] [book|novel|story] {m_have} {a} pages", "{s} [{have} to read|{want} to read|{begin} a book with] "
                                                          "{a} pages"),
        ("{s} {have} already read {b} [pages|of them]", "{b} [pages|of them] {t_be} [done|read already|finished]",
         "{s} {read} {b} pages at once"),
        ("{s} {read} {c} pages [a|each|every|per] day", "every day {s} {read} {c} more pages"),
        ("how many days does the rest take?", "how many days [are needed|{do} {s} need] for the rest?",
         "after how many days is the book finished?")),),
    "older, in some years": ((
        ("{n} {be} {a} years old", "{n} {be} {a}", "{n} {be} {a} years old today"),
        ("{m} {m_be} {b} years older", "{m} {m_be} {b} years older than {n}", "{m} {m_be} older by {b} years"),
        ("how old will {m} be [in {c} years|{c} years from now|after {c} years]?",
         "[in {c} years|{c} years from now], how old will {m} be?", "what will be {m}'s age in {c} years?")),),
    "younger, in some years": ((
        ("{n} {be} {a} years old", "{n} {be} {a}", "{n} {be} {a} years old today"),
        ("{m} {m_be} {b} years younger", "{m} {m_be} {b} years younger than {n}", "{m} {m_be} younger by {b} years"),
        ("how old will {m} be [in {c} years|{c} years from now|after {c} years]?",
         "[in {c} years|{c} years from now], how old will {m} be?", "what will be {m}'s age in {c} years?")),),
    "who spends more": ((
        ("{s} [{buy}|{order}|{get}] {a} {t} [for|at] {b} {cur} [each|apiece]",
         "{s} {spend} {b} {cur} on each of {a} {t}"),
        ("{m} [{m_spend}|{m_pay}] {c} {cur}", "{m} {m_buy} something for {c} {cur}"),
        ("how much more {do} {n} [spend|pay] than {m}?", "what is the difference in {cur}?",
         "how many {cur} more than {m} {do} {n} [spend|pay]?")),),
    "price of some from others": ((
        ("{a} {t} {t_cost} {b} {cur}", "{s} {pay} {b} {cur} for {a} {t}", "the price of {a} {t} {m_be} {b} {cur}",
         "{s} [{buy}|{get}] {a} {t} for {b} {cur}"),
        ("how [much|many {cur}] [do {c} {t} cost|are {c} {t}|must one pay for {c} {t}]?",
         "what [is the price of|do you pay for] {c} {t}?", "what do {c} [of them|{t}] cost?")),),
    "hours and minutes": ((
        ("[a|the] [film|trip|train ride|concert|lesson|flight|game] {m_last} {a} hours and {b} minutes",
         "{s} [{work}|{sleep}|{walk}|{study}|{play}|{cook}|{drive}] for {a} hours and {b} minutes"),
        ("how many minutes is that[| in total| altogether]?", "how long is that in minutes?",
         "what is that in minutes?")),),
    "time for pieces and a break": ((
        ("{s} {need} {b} minutes [for each of {a} {t}|to clean each of {a} {t}|to pack each of {a} {boxes}]",
         "{s} [{run}|{walk}|{swim}] {a} [rounds|laps] of {b} minutes each", "{s} {play} {a} songs of {b} minutes each"),
        ("{s} [{rest}|{take} a break] for {c} minutes", "{s} {have} a break of {c} minutes",
         "a break of {c} minutes {m_follow}"),
        ("how many minutes [is that|does it take|does that make][| in total| altogether| in all]?",
         "how long does [it|everything] take in minutes?")),),
    "rope": ((
        ("{s} {have} a [rope|wire|cable|ribbon|string] of {c} meters",
         "[a|the] [rope|wire|cable|cloth] {m_be} {c} meters long",
         "{s} {buy} {c} meters of [rope|cloth|wire|ribbon]"),
        ("{s} {cut} off {a} pieces of {b} meters[ each|]", "{s} [{cut}|{use}|{take}|{need}] {a} pieces[, each {b} "
                                                           "meters long| "
         "of {b} meters| that are {b} meters long]", "{a} pieces of {b} meters each {t_be} [cut off|used|needed]"),
        ("how many meters [are left|remain]?", "how long is the [rest|remaining piece] in meters?",
         "how many meters {do} {s} have left?")),),
    "temperature": ((
        ("in the morning it {m_be} {a} degrees", "it {m_be} {a} degrees [outside|at first|in the room]",
         "the [water|soup|air|oven|room] {m_have} {a} degrees", "the temperature {m_be} {a} degrees"),
        ("it [{m_rise} by|{m_go} up by|{m_increase} by|{m_climb}] {b} degrees",
         "it {m_get} {b} degrees [warmer|hotter]",
         "it {m_warm} up by {b} degrees"),
        ("it [{m_fall} by|{m_drop} by|{m_sink} by|{m_go} down by] {c} degrees",
         "it {m_get} {c} degrees [colder|cooler]",
         "it {m_cool} down by {c} degrees"),
        ("how many degrees is it" + NOW + "?", "what is the temperature" + NOW + "?", "how warm is it" + NOW + "?")),),
    "pay for work": ((
        (*_rate("{s} [{work} for|{earn}|{get}|{make}]", "hours", "hour", "{cur}"),
         "{s} [{work}|{help}] {a} hours and {get} {b} {cur} [an hour|per hour|for each]",
         "{s} {sell} {a} {t} for {b} {cur} each"),
        ("{s} [{spend}|{pay}] {c} {cur} [on|for] [lunch|a book|a ticket|food|a bag]", "{s} {spend} {c} {cur}",
         "a [lunch|ticket|book|bag] {m_cost} {him} {c} {cur}"),
        ("how [much money|much|many {cur}] {do} {s} [have left|still have|keep]?",
         "how many {cur} [are left|remain]?")),),
    "legs": ((
        ("[on a farm|in a field|in a barn] there {t_be} {a} [cows|horses|sheep|goats] and {b} [hens|ducks|geese]",
         "{s} [{have}|{own}|{count}|{keep}] {a} [cows|horses|sheep|goats|dogs|cats] and {b} [hens|ducks|geese]"),
        ("how many legs [are there|is that|do they have|do the animals have|does that make]" + SUM + "?",
         "what is the total number of legs?")),),
    "two kinds of boxes": ((
        ("{s} [{have}|{buy}|{pack}|{fill}|{get}] {a} {boxes} of {b} {t}", "there {t_be} {a} {boxes} with {b} {t} each"),
        ("there {t_be} {c} {boxes} [of {d} {u}|with {d} {u} each]", "{s} [{get}|{have}|{find}] {c} {boxes} of {d} {u}"),
        ("how many {t} and {u} [are there|is that]" + SUM + "?", "how many things [are there|is that]" + SUM + "?")),),
    "rate": tuple((clause, asks) for clause, asks in (
        (_rate("{s} [{read}|{write}|{study}]", "days", "day", "pages"),
         ("how many pages [is that|does that make|are these|{do} {s} get through]" + SUM + "?",)),
        (_rate("{s} [{earn}|{get}|{make}|{receive}]", "hours", "hour", "{cur}"),
         ("how [many {cur}|much|much money] [is that|{do} {s} earn|does that make][| in total| altogether]?",)),
        (_rate("{s} [{save}|{put} aside|{spend}]", "weeks", "week", "{cur}"),
         ("how [many {cur}|much|much money] [is that|does that make][| in total| altogether]?",)),
        (_rate("{s} [{walk}|{drive}|{cycle}|{run}|{ride}]", "hours", "hour", "kilometers"),
         ("how [far|many kilometers] [is that|{do} {s} go|{do} {s} get][| in total| altogether]?",)),
        (_rate("{s} [{bake}|{make}|{sell}|{use}|{pack}|{collect}]", "days", "day", "{t}"),
         ("how many {t} [is that|does that make|are these|are there]" + SUM + "?",)),
    )),
    "time that it takes": (
        (("{s} [{have}|{want}|{need}] to [read|write] {a} pages", "a [book|story|report] {m_have} {a} pages"),
         ("{s} [{read}|{write}|{finish}] {b} pages [a|each|every|per] day", "every day {s} {finish} {b} pages"),
         ("how many days [does it take|is that|{do} {s} need|will it take]?", "after how many days is it done?")),
        (("{s} [{want}|{need}] {a} {cur}", "a [bicycle|watch|camera|phone] {m_cost} {a} {cur}"),
         ("{s} [{save}|{put} aside|{earn}] {b} {cur} [a|each|every|per] week", "every week {s} {save} {b} {cur}"),
         ("how many weeks [does it take|is that|{do} {s} need|will it take]?",)),
        (("{s} {want} to go {a} kilometers", "[a|the] [way|road|trip] {m_be} {a} kilometers long"),
         ("{s} [{walk}|{run}|{cycle}|{go}] {b} kilometers [an|each|every|per] hour",
          "every hour {s} {go} {b} kilometers"),
         ("how many hours [does it take|is that|{do} {s} need|will it take]?",)),
        (("a [tank|barrel|pool|bucket] {m_hold} {a} liters",),
         ("every minute {b} liters {t_flow} in", "{b} liters {t_flow} in per minute"),
         ("how many minutes [does it take|will it take] to fill it?", "after how many minutes is it full?")),
    ),
    "weekly": ((("{s} [{eat}|{use}|{buy}|{need}|{sell}] {a} {t} [a|each|every|per] day", "every day {s} {eat} {a} {t}"),
                ("how many {t} is that [in a week|in one week|each week|per week]?",
                 "how many {t} {do} {s} [need|have to buy] for one week?")),),
    "area": ((
        ("a [room|garden|field|carpet|yard|wall|floor] {m_be} {a} meters long and {b} meters wide",
         "{s} {have} a [garden|room|field|yard|carpet] of {a} meters by {b} meters",
         "the sides of a [room|garden|field] {t_be} {a} meters and {b} meters long"),
        ("what is [the|its] area[| in square meters]?", "how many square meters is that?", "how large is the area?")),),
    "perimeter": ((
        ("a [room|garden|field|carpet|yard|park] {m_be} {a} meters long and {b} meters wide",
         "{s} {have} a [garden|field|yard|park] of {a} meters by {b} meters",
         "the sides of a [room|garden|field|yard] {t_be} {a} meters and {b} meters long"),
        ("what is [the|its] perimeter?", "how many meters is it all around?",
         "how long is [a fence|the fence] around it?",
         "how many meters is the way around it?")),),
    "rate with more": (
        (_rate("{s} [{bake}|{make}|{sell}|{pack}|{collect}]", "days", "day", "{t}"),
         ("{s} [{make}|{find}|{get}|{add}] {c} more", "another {c} {t} {t_be} added"),
         ("how many {t} [is that|does that make|are there]" + SUM + "?",)),
        (("{s} {have} {c} {cur}", "{s} already {have} {c} {cur}", "{s} {start} with {c} {cur}"),
         _rate("{s} [{save}|{put} aside|{earn}|{get}]", "weeks", "week", "{cur}"),
         ("how [many {cur}|much|much money] {do} {s} have [then|after that|in the end|altogether]?",)),
        (("a [tank|barrel|pool] {m_hold} {c} liters of water",),
         ("[another |]{b} liters {t_flow} in [every|each|per] minute for {a} minutes",
          "for {a} minutes {b} liters {t_flow} in every minute"),
         ("how many liters are in it [then|now|in the end|after that]?",)),
    ),
}
