"""Word problems of one step and of three or four."""

from __future__ import annotations

from .problem_schema import Schema, way

ONE_STEP = (
    Schema("gets more", "a 2-300, b 2-99", (
        way("r = a + b", "{n} has {0} {t} now.", "Together that is {0} {t}."),), (
        "{n} has {a} {t} and gets {b} more. How many {t} does {n} have now?",
        "{n} has {a} {t}. {m} gives {him} {b} {t}. How many {t} does {n} have in total?",
        "There are {a} {t} in one {box} and {b} {t} in another. How many {t} are there altogether?",
        "{n} had {a} {t} and bought another {b}. How many {t} does {he} have?"), (
        "To the {a} {t} of {n} come {b} from {m}. What does {n} have then?",)),
    Schema("gives away", "a 4-300, b < a", (
        way("r = a - b", "There are {0} {t} left.", "So {0} {t} remain."),), (
        "{n} has {a} {t}. {He} gives {b} to {m}. How many {t} does {n} have left?",
        "There are {a} {t} in a {box}. {n} takes {b} of them out. How many {t} are still in the {box}?",
        "{n} had {a} {t} and lost {b} of them. How many {t} does {he} still have?",
        "A shop has {a} {t} and sells {b}. How many {t} remain?"), (
        "{b} of the {a} {t} that {n} owned are gone. What is still there?",)),
    Schema("groups of", "a 2-12, b 2-12", (
        way("r = a * b", "There are {0} {t}.", "Altogether that is {0} {t}."),), (
        "{n} has {a} {boxes} with {b} {t} in each. How many {t} does {n} have?",
        "There are {a} {boxes} of {t}. Each {box} holds {b} {t}. How many {t} are there in total?",
        "Each of {a} children has {b} {t}. How many {t} do they have altogether?",
        "{n} lays out {a} rows of {b} {t}. How many {t} are there?"), (
        "{b} {t} fill a {box}, and {n} fills {a} of them. What number of {t} does that take?",)),
    Schema("shared equally", "b 2-12, q 2-12, a = b * q", (
        way("r = a / b", "That is {0} {t} each.", "Divided equally it is {0} {t}."),), (
        "{n} shares {a} {t} equally among {b} friends. How many {t} does each friend get?",
        "{a} {t} are put into {b} {boxes}, the same number in each. How many {t} are in one {box}?",
        "{b} children divide {a} {t} equally. How many {t} does each child get?",
        "{n} makes {b} equal groups out of {a} {t}. How many {t} are in one group?"), (
        "If {b} cousins get the same share of {a} {t}, what does one of them receive?",), about="people"),
    Schema("how many more", "a 4-200, b < a", (
        way("r = a - b", "{n} has {0} {t} more.", "The difference is {0} {t}."),), (
        "{n} has {a} {t} and {m} has {b}. How many more {t} does {n} have than {m}?",
        "{m} has {b} {t}. {n} has {a} {t}. How many {t} fewer than {n} does {m} have?",
        "{n} collected {a} {t}, {m} only {b}. What is the difference?",
        "How many {t} does {m} need to have as many as {n}, if {m} has {b} and {n} has {a}?"), (
        "{n} is in front with {a} {t}, {m} follows with {b}. How far is {m} behind?",)),
    Schema("more or older than", "a 2-200, b 2-90", (
        way("r = a + b", "{m} has {0} {t}.", "The number for {m} is {0} {t}."),), (
        "{n} has {a} {t}. {m} has {b} more than {n}. How many {t} does {m} have?",
        "{m} has {b} {t} more than {n}, who has {a}. How many {t} does {m} have?",
        "{n} found {a} {t}. {m} found {b} {t} more than that. How many {t} did {m} find?"), (
        "{m} beats {n} by {b} {t}. {n} has {a}. What is the number for {m}?",)),
    Schema("price", "a 2-12, b 2-12", (
        way("r = a * b", "{n} pays {0} dollars.", "The {t} cost {0} dollars."),), (
        "{n} buys {a} {t} for {b} dollars each. How many dollars does {he} pay?",
        "One {o} costs {b} dollars. How much does {n} pay for {a} {t}?",
        "How much do {a} {t} cost at {b} dollars each if {n} buys them?"), (
        "{a} {t} go to {n} at {b} dollars apiece. What is the bill?",), about="money"),
    Schema("change of one thing", "a 2-95, c note a", (
        way("r = c - a", "{n} gets back {0} dollars.", "The change is {0} dollars."),), (
        "{n} buys a bag for {a} dollars and pays with {c} dollars. How much change does {he} get?",
        "A book costs {a} dollars. {n} gives the seller {c} dollars. How many dollars does {he} get back?",
        "{n} has {c} dollars and spends {a} dollars. How many dollars are the change?"), (
        "On a note of {c} dollars, what does {n} receive back when the lamp costs {a} dollars?",), about="money"),
    Schema("half", "k 2, q 2-60, a = k * q", (
        way("r = a / k", "Half of them is {0}.", "That makes {0}."),), (
        "{n} has {a} {t} and gives half of them to {m}. How many {t} does {n} have left?",
        "There are {a} {t} in a {box}. Half of them are sold. How many {t} are left?",
        "Half of the {a} {t} of {n} are red. How many red {t} are there?"), (
        "One of every two {t} was broken when {n} opened a {box} of {a}. What number was whole?",)),
    Schema("several times as many", "a 2-12, b 2-12", (
        way("r = a * b", "{m} has {0} {t}.", "That makes {0} {t}."),), (
        "{n} has {a} {t}. {m} has {b} times as many. How many {t} does {m} have?",
        "{m} has {b} times as many {t} as {n}. {n} has {a}. How many {t} does {m} have?"), (
        "For every one of the {a} {t} of {n}, {m} can show {b}. What number of {t} is that for {m}?",)),
    Schema("rate", "b 2-12, a 2-12", (
        way("r = b * a", "That is {0} altogether.", "The total is {0}."),), (
        "{n} reads {b} pages a day for {a} days. How many pages is that?",
        "{n} earns {b} dollars an hour. How many dollars does {he} earn in {a} hours?",
        "{n} walks {b} kilometers every day. How many kilometers does {he} walk in {a} days?"), (
        "{a} evenings, {b} songs on each: what number of songs does {n} sing?",)),
    Schema("time that it takes", "b 2-12, q 2-12, a = b * q", (
        way("r = a / b", "It takes {0}.", "That is {0}."),), (
        "{n} wants to read {a} pages and reads {b} pages a day. How many days does {he} need?",
        "{n} saves {b} dollars a week. In how many weeks does {he} have {a} dollars?",
        "A tank holds {a} liters. Every minute {b} liters flow in. After how many minutes is it full?"), (
        "With {b} kilometers behind {him} each hour, when has {n} put {a} kilometers behind {him}?",)),
    Schema("weekly", "k 7, a 2-9", (
        way("r = a * k", "A week has 7 days, so that is {0}.", "In seven days it is {0}."),), (
        "{n} eats {a} {t} every day. How many {t} does {he} eat in a week?",
        "{n} reads {a} pages a day. How many pages is that in one week?"), (
        "Day after day {n} uses up {a} {t}. What number is that from one Sunday to the next?",), things="food"),
    Schema("area", "a 2-12, b 2-12", (
        way("r = a * b", "The area is {0} square meters.", "Length times width is {0}."),), (
        "A garden is {a} meters long and {b} meters wide. How many square meters is its area?",
        "What is the area of a room that is {a} meters long and {b} meters wide?"), (
        "{n} wants to cover a floor of {a} by {b} meters. What number of square meters is that?",), about="distance"),
)
THREE_STEP = (
    Schema("two kinds of boxes", "a 2-12, b 2-12, c 2-12, d 2-12", (
        way("p = a * b; q = c * d; r = p + q", "There are {0} {t}. There are {1} {u}. Altogether that is {2}.",
            "The {t} make {0}. The {u} make {1}. The sum is {2}."),
        way("q = c * d; p = a * b; r = q + p", "There are {0} {u}. There are {1} {t}. Altogether that is {2}.")), (
        "{n} has {a} {boxes} with {b} {t} each and {c} {boxes} with {d} {u} each. How many {t} and {u} does {n} have "
        "in total?",
        "There are {a} {boxes} of {t} with {b} in each, and {c} {boxes} of {u} with {d} in each. How many things are "
        "there altogether?",
        "{n} packs {b} {t} into each of {a} {boxes}, and {m} packs {d} {u} into each of {c} {boxes}. How many things "
        "did they pack?"), (
        "{a} {boxes} hold {b} {t} apiece and {c} hold {d} {u} apiece. Count everything for {n}.",)),
    Schema("two kinds bought", "a 2-12, b 2-12, c 2-12, d 2-12", (
        way("p = a * b; q = c * d; r = p + q",
            "The {t} cost {0} dollars. The {u} cost {1} dollars. Altogether that is {2} dollars.",
            "{n} pays {0} dollars for {t}. {He} pays {1} dollars for {u}. The total is {2} dollars."),
        way("q = c * d; p = a * b; r = q + p",
            "The {u} cost {0} dollars. The {t} cost {1} dollars. Altogether that is {2} dollars.")), (
        "{n} buys {a} {t} for {b} dollars each and {c} {u} for {d} dollars each. How much does {he} pay in total?",
        "One {o} costs {b} dollars and one {v} costs {d} dollars. How many dollars do {a} {t} and {c} {u} cost "
        "together?",
        "{n} sells {a} {t} at {b} dollars each and {c} {u} at {d} dollars each. How many dollars does {he} get?"), (
        "The bill of {n}: {a} {t}, {b} dollars apiece, and {c} {u}, {d} dollars apiece. What is the sum?",),
        about="money"),
    Schema("legs", "a 2-12, f 4, b 2-12, k 2", (
        way("p = a * f; q = b * k; r = p + q",
            "The four-legged ones have {0} legs. The birds have {1} legs. Altogether that is {2} legs.",
            "There are {0} legs. Then there are {1} legs. The total is {2} legs."),
        way("q = b * k; p = a * f; r = q + p",
            "The birds have {0} legs. The others have {1} legs. Altogether that is {2} legs.")), (
        "On the farm of {n} there are {a} cows and {b} hens. How many legs do the animals have?",
        "{n} sees {a} horses and {b} geese. How many legs is that in total?",
        "A farmer has {b} ducks and {a} sheep. How many legs do they have altogether?"), (
        "{a} goats and {b} chickens live with {n}. Count all their legs.",)),
    Schema("packs, more, fewer", "a 2-12, b 2-12, p = a * b, c 2-60, q = p + c, d < p", (
        way("p = a * b; q = p + c; r = q - d",
            "The {boxes} hold {0} {t}. With the others it is {1} {t}. In the end it is {2} {t}.",
            "There are {0} {t} at first. Then there are {1} {t}. So {2} {t} are left."),
        way("p = a * b; s = p - d; r = s + c",
            "The {boxes} hold {0} {t}. Without those that go it is {1} {t}. With the others it is {2} {t}.")), (
        "{n} has {a} {boxes} with {b} {t} each. {He} finds {c} more {t} and gives {d} to {m}. How many {t} does {n} "
        "have now?",
        "{n} buys {a} {boxes} of {b} {t}. {He} already had {c} {t}. Then {he} loses {d} {t}. How many {t} are left?",
        "{m} gives {n} {c} {t}. {n} also gets {a} {boxes} of {b} {t} and then sells {d} {t}. How many {t} does {n} "
        "have?"), (
        "{a} {boxes} of {b} {t} stand here, {c} single {t} lie beside them, and {n} carries {d} away. What stays?",)),
    Schema("two kinds and change", "a 2-5, b 2-9, c 2-5, d 2-9, p = a * b, q = c * d, s = p + q, e note s", (
        way("p = a * b; q = c * d; s = p + q; r = e - s",
            "The {t} cost {0} dollars. The {u} cost {1} dollars. Together that is {2} dollars. The rest is {3} "
            "dollars.",
            "{n} pays {0} dollars for {t}. {He} pays {1} dollars for {u}. {He} spends {2} dollars. So {3} dollars are "
            "left."),), (
        "{n} has {e} dollars. {He} buys {a} {t} for {b} dollars each and {c} {u} for {d} dollars each. How many "
        "dollars are left?",
        "{n} buys {a} {t} at {b} dollars each and {c} {u} at {d} dollars each. {He} pays with {e} dollars. How much "
        "change does {he} get?"), (
        "Out of {e} dollars, {n} pays for {a} {t} at {b} dollars apiece and {c} {u} at {d} dollars apiece. What "
        "remains?",
        ), about="money"),
    Schema("three people, total", "a 4-60, b 2-40, c 2-40", (
        way("p = a + b; q = p + c; s = a + p; r = s + q",
            "{m} has {0} {t}. {w} has {1} {t}. {n} and {m} have {2} {t}. All three have {3} {t}.",
            "For {m} it is {0}. For {w} it is {1}. The first two have {2}. The total is {3}."),), (
        "{n} has {a} {t}. {m} has {b} more than {n}, and {w} has {c} more than {m}. How many {t} do all three have?",
        "{n} found {a} {t}. {m} found {b} {t} more than {n}. {w} found {c} {t} more than {m}. How many {t} did they "
        "find together?"), (
        "{n} owns {a} {t}, {m} owns {b} on top of that number, and {w} beats {m} by {c}. What do all own as a "
        "group?",)),
)
