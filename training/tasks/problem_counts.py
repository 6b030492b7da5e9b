"""Word problems of two steps about things and people that are counted."""

from __future__ import annotations

from .problem_schema import Schema, way

COUNTS = (
    Schema("some and packs", "a 2-12, b 2-12, c 3-90", (
        way("p = a * b; r = c + p", "{n} gets {0} {t}. So {he} has {1} {t}.",
            "The {boxes} hold {0} {t}. Together that makes {1} {t}."),), (
        "{n} has {c} {t}. {He} buys {a} {boxes} with {b} {t} each. How many {t} does {n} have now?",
        "There are {b} {t} in one {box}. {n} buys {a} {boxes} and already has {c} {t}. How many {t} is that in total?",
        "{n} had {c} {t} and then got {a} {boxes} of {b} {t}. How many {t} does {he} have in all?",
        "{m} gives {n} {a} {boxes} of {t}. Each {box} holds {b} {t}. {n} had {c} {t} before. "
        "What is the number of {t} that {n} has now?",
        "How many {t} does {n} have if {he} owns {c} {t} and buys {a} more {boxes} with {b} {t} in each?"), (
        "{a} {boxes} arrive for {n}, every one of them with {b} {t} inside, and {c} {t} were there before. "
        "Count all {t} of {n}.",)),
    Schema("packs, some given away", "a 2-12, b 3-12, p = a * b, c < p", (
        way("p = a * b; r = p - c", "There are {0} {t} at first. After that {1} {t} are left.",
            "There are {0} {t} in the {boxes}. Without the others there are {1} {t}."),), (
        "{n} has {a} {boxes} with {b} {t} each. {He} gives {c} {t} to {m}. How many {t} does {n} have left?",
        "There are {a} {boxes} of {t}, with {b} {t} in each. {c} of the {t} are lost. How many {t} are left?",
        "{n} buys {a} {boxes} of {b} {t}. {c} {t} are bad and {he} throws them away. How many {t} remain?",
        "A shop has {a} {boxes} with {b} {t} in every {box}. It sells {c} {t}. How many {t} does the shop still have?",
        "{c} {t} are taken out of {a} {boxes} that held {b} {t} each. How many {t} are still in them?"), (
        "Every {box} holds {b} {t}, and {n} carries {a} of these {boxes} home. On the way {c} {t} fall out. "
        "What number of {t} arrives?",)),
    Schema("gets and gives", "a 6-99, b 3-99, c < a", (
        way("p = a + b; r = p - c", "First it is {0} {t}. Then it is {1} {t}.",
            "With the new ones there are {0} {t}. Now {1} {t} remain."),
        way("q = a - c; r = q + b", "Without those that go away it is {0} {t}. With the new ones it is {1} {t}.")), (
        "{n} has {a} {t}. {He} gets {b} more and gives {c} to {m}. How many {t} does {n} have now?",
        "{n} had {a} {t}. {m} gave {him} {b} {t}, and later {n} lost {c} {t}. How many {t} does {n} have left?",
        "A shop has {a} {t}. In the morning {b} more {t} arrive, and in the afternoon {c} {t} are sold. "
        "How many {t} does the shop have in the evening?",
        "{n} buys {b} {t}. {He} already had {a} {t}. After that {he} sells {c} of them. How many {t} are left?",
        "{n} starts with {a} {t}, finds {b} and gives away {c}. How many {t} does {he} end up with?"), (
        "The drawer of {n} holds {a} {t}. {b} go in and {c} come out again. What does {he} count in the end?",)),
    Schema("two lots taken", "b 2-60, c 2-60, q = b + c, r 2-99, a = q + r", (
        way("p = a - b; r = p - c", "After the first time there are {0} {t}. After the second there are {1} {t}.",
            "{0} {t} are left at first. In the end {1} {t} are left."),
        way("q = b + c; r = a - q", "Altogether {0} {t} are gone. So {1} {t} are left.")), (
        "{n} has {a} {t}. {He} gives {b} to {m} and {c} to {w}. How many {t} does {n} have left?",
        "There were {a} {t} in the shop. {b} were sold on Monday and {c} on Tuesday. How many {t} are left?",
        "From a {box} of {a} {t}, {n} takes {b} {t} and {m} takes {c} {t}. How many {t} stay in the {box}?",
        "{n} had {a} {t}. First {he} lost {b} {t} and then {c} more. How many {t} does {he} still have?",
        "{m} gets {b} {t} and {w} gets {c} {t} from {n}, who had {a} {t}. How many {t} does {n} keep?"), (
        "Of {a} {t} in all, {b} belong to {m}, {c} belong to {w}, and {n} owns the rest. What is the share of {n}?",)),
    Schema("put together and share", "c 2-10, r 2-12, p = c * r, a < p, b = p - a", (
        way("p = a + b; r = p / c", "Altogether there are {0} {t}. Divided equally that is {1} {t}.",
            "There are {0} {t} to share. That is {1} {t} each."),), (
        "{n} has {a} {t} and {m} has {b} {t}. They put them together and share them equally among {c} children. "
        "How many {t} does each child get?",
        "{n} picks {a} {t} in the morning and {b} in the evening. {He} puts all of them into {c} {boxes}, the same "
        "number in each. How many {t} are in one {box}?",
        "There are {a} {t} on one table and {b} {t} on another. {c} friends divide them all equally. "
        "How many {t} does one friend get?",
        "{n} buys {a} {t}, then {b} more, and divides them equally into {c} groups. How many {t} are in each group?"), (
        "{c} cousins split everything evenly: the {a} {t} of {n} and the {b} {t} of {m}. What does one cousin take?",),
        about="people"),
    Schema("keep some and share", "c 2-10, r 2-12, p = c * r, b 2-40, a = p + b", (
        way("p = a - b; r = p / c", "{0} {t} are left to share. That is {1} {t} each.",
            "Without those there are {0} {t}. Divided equally that is {1} {t}."),), (
        "{n} has {a} {t}. {He} keeps {b} and shares the rest equally among {c} friends. "
        "How many {t} does each friend get?",
        "There are {a} {t}. {b} of them are bad and are thrown away. The others are put into {c} {boxes}, the same "
        "number in each. How many {t} are in one {box}?",
        "{n} buys {a} {t} and sells {b} of them. The other {t} are divided equally among {c} tables. "
        "How many {t} are on each table?",
        "After giving {b} of {his} {a} {t} to {m}, {n} divides the others equally into {c} {boxes}. "
        "How many {t} go into each {box}?"), (
        "{b} out of {a} {t} are set aside. What remains is dealt out evenly to {c} players. What does one player "
        "hold?",),
        things="food", about="people"),
    Schema("more than, total", "a 3-90, b 2-50", (
        way("p = a + b; r = a + p", "{m} has {0} {t}. Together they have {1} {t}.",
            "The number of {t} that {m} has is {0}. The total is {1} {t}."),), (
        "{n} has {a} {t}. {m} has {b} more {t} than {n}. How many {t} do they have together?",
        "{m} has {b} {t} more than {n}. {n} has {a} {t}. How many {t} do {n} and {m} have in total?",
        "{n} collected {a} {t}, and {m} collected {b} more than {n} did. How many {t} did both collect altogether?",
        "If {n} owns {a} {t} and {m} owns {b} more than {n}, how many {t} do the two own?"), (
        "{m} is ahead of {n} by {b} {t}, and {n} has {a} of them. What do both have as a pair?",)),
    Schema("fewer than, total", "a 6-99, b < a", (
        way("p = a - b; r = a + p", "{m} has {0} {t}. Together they have {1} {t}.",
            "The number of {t} that {m} has is {0}. The total is {1} {t}."),), (
        "{n} has {a} {t}. {m} has {b} fewer {t} than {n}. How many {t} do they have together?",
        "{m} has {b} {t} fewer than {n}. {n} has {a} {t}. How many {t} do {n} and {m} have in total?",
        "{n} picked {a} {t}, and {m} picked {b} fewer than {n} did. How many {t} did both pick altogether?",
        "If {n} owns {a} {t} and {m} owns {b} fewer than {n}, how many {t} do the two own?"), (
        "{m} is behind {n} by {b} {t}, and {n} has {a} of them. What do both have as a pair?",)),
    Schema("times as many, total", "a 2-12, b 2-9", (
        way("p = a * b; r = a + p", "{m} has {0} {t}. Together they have {1} {t}.",
            "That is {0} {t} for {m}. Both have {1} {t}."),), (
        "{n} has {a} {t}. {m} has {b} times as many. How many {t} do they have together?",
        "{m} has {b} times as many {t} as {n}, who has {a}. How many {t} do {n} and {m} have in total?",
        "{n} found {a} {t}, and {m} found {b} times as many {t} as {n}. How many {t} did both find altogether?",
        "If {n} owns {a} {t} and {m} owns {b} times that number, how many {t} do the two own?"), (
        "For every one of the {a} {t} that {n} has, {m} has {b}. What do both have as a pair?",)),
    Schema("rows, some taken", "a 3-12, b 3-12, p = a * b, c < p", (
        way("p = a * b; r = p - c", "There are {0} places. {1} places are free.",
            "The rows have {0} places in all. So {1} are empty."),), (
        "There are {a} rows of chairs with {b} chairs in each row. {c} people sit down. How many chairs are empty?",
        "A hall has {a} rows with {b} seats each. {c} seats are taken. How many seats are free?",
        "{n} sets up chairs in {a} rows and {b} columns. {c} chairs are in use. How many chairs are not in use?",
        "In a cinema with {a} rows of {b} seats, {c} tickets are sold. How many seats stay empty?"), (
        "{b} seats make one row, and the room has {a} such rows. When {c} guests have found their places, what number "
        "of seats is still open?",), about="people"),
    Schema("rows and some more", "a 3-12, b 3-12, c 2-90", (
        way("p = a * b; r = p + c", "In the rows there are {0} trees. Altogether there are {1} trees.",
            "There are {0} trees in rows. With the others it is {1} trees."),), (
        "{n} plants {a} rows of trees with {b} trees in each row. {c} more trees stand by the wall. How many trees are "
        "there?",
        "A garden has {a} rows with {b} trees each and {c} other trees. How many trees are in the garden?",
        "There are {c} trees at the gate, and behind it {a} rows of {b} trees. How many trees is that altogether?"), (
        "{c} old trees were here when {n} came and set young ones: {a} lines, {b} to a line. What is the number of all "
        "trees?",)),
    Schema("bus stop", "a 6-90, b < a, c 2-40", (
        way("p = a - b; r = p + c", "After some have gone there are {0}. Then there are {1}.",
            "{0} stay. With the new ones it is {1}."),
        way("q = a + c; r = q - b", "With the new ones there are {0}. Without the others it is {1}.")), (
        "There are {a} people on a bus. {b} get off and {c} get on. How many people are on the bus now?",
        "A train carries {a} people. At the next stop {c} people get on and {b} get off. How many people are on the "
        "train then?",
        "{a} people sit in a cafe. {b} of them leave and {c} others come in. How many people are in the cafe now?",
        "At first {a} children are in the pool. Then {b} go home and {c} arrive. How many children are there now?"), (
        "The boat left with {a} on board. At the island {b} stepped off, while {c} joined. What is the head count "
        "now?",),
        about="people"),
    Schema("pack and add", "b 2-10, p 2-12, a = b * p, c 2-60", (
        way("p = a / b; r = p + c", "{n} fills {0} {boxes}. Altogether there are {1} {boxes}.",
            "That makes {0} new {boxes}. With the others it is {1} {boxes}."),), (
        "{n} packs {a} {t} into {boxes}, {b} {t} in each. There are {c} {boxes} already. How many {boxes} are there "
        "now?",
        "{b} {t} fit into one {box}. {n} packs {a} {t} and puts the full {boxes} next to {c} other {boxes}. "
        "How many {boxes} are there in all?",
        "There are {c} full {boxes} in the room. {n} puts {a} more {t} into new {boxes} of {b}. How many full {boxes} "
        "is that?"), (
        "{n} takes {a} loose {t} and makes {boxes} of {b} out of them; {c} {boxes} were done before. What is the "
        "number of {boxes} at the end?",)),
    Schema("share and use", "b 2-10, p 4-12, a = b * p, c < p", (
        way("p = a / b; r = p - c", "Divided equally it is {0} {t}. Then {1} {t} are left.",
            "One part is {0} {t}. Then {1} {t} remain."),), (
        "{n} and {his} friends are {b} children. They share {a} {t} equally, and {n} eats {c} of {his} {t}. "
        "How many {t} does {n} have left?",
        "{a} {t} are divided equally among {b} people. {n} is one of them and gives {c} {t} to {m}. How many {t} does "
        "{n} keep?",
        "{n} puts {a} {t} into {b} {boxes}, the same number in each. {m} takes {c} {t} out of one {box}. How many {t} "
        "are left in this {box}?"), (
        "{a} {t} are dealt out evenly to {b} people. {n}, who is one of them, uses up {c}. What is still in {his} "
        "hands?",
        ), things="food", about="people"),
    Schema("who has more now", "a 5-80, c 2-50, p = a + c, b < p", (
        way("p = a + c; r = p - b", "{n} has {0} {t} now. That is {1} {t} more than {m} has.",
            "Now {n} owns {0} {t}. The difference is {1} {t}."),), (
        "{n} has {a} {t} and {m} has {b}. {n} gets {c} more {t}. How many more {t} than {m} does {n} have now?",
        "{m} has {b} {t}. {n} had {a} {t} and then found {c}. How many {t} more than {m} does {n} have?",
        "{n} collected {a} {t} on Monday and {c} on Tuesday. {m} collected {b}. How many more {t} did {n} collect?"), (
        "Two piles: the {t} of {m} number {b}, those of {n} {a}, and {c} are laid on the pile of {n}. By how many is "
        "it the larger pile now?",)),
    Schema("dozens", "a 2-12, k 12, p = a * k, c < p", (
        way("p = a * k; r = p - c", "{a} dozen are {0} eggs. There are {1} eggs left.",
            "That is {0} eggs at first. After that {1} eggs remain."),), (
        "{n} buys {a} dozen eggs and uses {c} of them. How many eggs are left?",
        "A dozen is 12. {n} has {a} dozen eggs and {c} of them break. How many eggs are still whole?",
        "There are {a} dozen eggs in the kitchen. {n} takes {c} eggs. How many eggs remain?"), (
        "{c} eggs from {a} dozen went into the cakes of {n}. What number of eggs was not needed?",)),
    Schema("teams", "c 2-10, r 2-12, p = c * r, a < p, b = p - a", (
        way("p = a + b; r = p / c", "There are {0} children. They make {1} groups.",
            "Altogether that is {0} children. So the number of groups is {1}."),), (
        "There are {a} boys and {b} girls in a school group. They form teams of {c} children. How many teams are "
        "there?",
        "{a} children come by bus and {b} come by train. They make groups of {c}. How many groups is that?",
        "A class of {a} children and a class of {b} children go on a trip together. {c} children make one group. "
        "How many groups are there?"), (
        "Every tent sleeps {c}. For a camp with {a} girls and {b} boys, what number of tents must {n} bring?",),
        about="people"),
    Schema("three in a chain", "a 5-90, b 3-60, p = a + b, c < p", (
        way("p = a + b; r = p - c", "{m} has {0} {t}. {w} has {1} {t}.",
            "The number for {m} is {0}. The number for {w} is {1}."),), (
        "{n} has {a} {t}. {m} has {b} more than {n}, and {w} has {c} fewer than {m}. How many {t} does {w} have?",
        "{w} has {c} {t} fewer than {m}. {m} has {b} {t} more than {n}. {n} has {a} {t}. How many {t} does {w} have?",
        "{n} found {a} {t}, {m} found {b} more than {n}, and {w} found {c} fewer than {m}. How many did {w} find?"), (
        "{m} beats {n}, who has {a} {t}, by {b}; {w} is {c} behind {m}. What does {w} hold?",)),
    Schema("three added", "a 3-99, b 3-99, c 3-99", (
        way("p = a + b; r = p + c", "The first two make {0}. All three make {1}.",
            "{n} and {m} have {0} {t}. With {w} it is {1} {t}."),
        way("q = b + c; r = a + q", "{m} and {w} have {0} {t}. All together have {1} {t}.")), (
        "{n} has {a} {t}, {m} has {b} {t} and {w} has {c} {t}. How many {t} do they have altogether?",
        "How many {t} do {n}, {m} and {w} have in total if {n} has {a}, {m} has {b} and {w} has {c}?",
        "{n} picks {a} {t}, {m} picks {b} and {w} picks {c}. They put all of them into one {box}. How many {t} are in "
        "the {box}?"), (
        "Three children lay down their {t}: {a} from {n}, {b} from {m}, {c} from {w}. What is on the table?",)),
    Schema("third day", "b 3-80, c 3-80, q = b + c, r 2-99, a = q + r", (
        way("q = b + c; r = a - q", "On the first two days it was {0}. So on Wednesday it was {1}.",
            "Monday and Tuesday make {0}. Wednesday must be {1}."),
        way("p = a - b; r = p - c", "Without Monday there are {0}. Without Tuesday too there are {1}.")), (
        "{n} sold {a} {t} in three days. {He} sold {b} on Monday and {c} on Tuesday. How many did {he} sell on "
        "Wednesday?",
        "On Monday, Tuesday and Wednesday {n} made {a} {t} in total: {b} on Monday, {c} on Tuesday and the others on "
        "Wednesday. How many {t} did {he} make on Wednesday?",
        "Monday brought {b} visitors and Tuesday {c}. With Wednesday there were {a} visitors in the three days. "
        "How many visitors came on Wednesday?"), (
        "Over three days {n} counted {a} birds. {b} of them were from Monday and {c} from Tuesday. What is left for "
        "Wednesday?",), about="people"),
    Schema("points", "a 2-12, b 2-12, c 2-50", (
        way("p = a * b; r = p + c", "First that is {0} points. Altogether {n} has {1} points.",
            "{n} wins {0} points. The total is {1} points."),), (
        "{n} plays {a} rounds and wins {b} points in each. {He} gets a bonus of {c} points. How many points does {he} "
        "have?",
        "In a game {n} gets {b} points for every star. {He} finds {a} stars and already had {c} points. How many "
        "points does {he} have now?",
        "{n} has {c} points. Then {he} wins {a} rounds with {b} points each. How many points does {n} have in "
        "total?"), (
        "A goal counts {b} points. {n} shoots {a} goals and the judges add {c} points. What is on the board?",)),
)
