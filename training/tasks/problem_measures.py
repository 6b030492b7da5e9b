"""Word problems of two steps about money, ways, ages, time and the like."""

from __future__ import annotations

from .problem_schema import Schema, way

MEASURES = (
    Schema("change", "a 2-9, b 2-12, p = a * b, c note p", (
        way("p = a * b; r = c - p", "The {t} cost {0} dollars. So {1} dollars are left.",
            "{n} has to pay {0} dollars. The rest is {1} dollars."),), (
        "{n} buys {a} {t} for {b} dollars each and pays with {c} dollars. How much change does {he} get?",
        "One {o} costs {b} dollars. {n} buys {a} {t} and gives the seller {c} dollars. How many dollars does {he} get "
        "back?",
        "{n} has {c} dollars. {He} buys {a} {t} at {b} dollars each. How much money does {n} have left?",
        "With {c} dollars in {his} pocket, {n} goes to the market and buys {a} {t}. Each {o} costs {b} dollars. "
        "How many dollars are left?"), (
        "At {b} dollars apiece, {a} {t} go into the bag of {n}. {He} hands over a note of {c} dollars. "
        "What comes back?",), about="money"),
    Schema("one thing and several", "a 2-12, b 2-12, c 3-90", (
        way("p = a * b; r = p + c", "The {t} cost {0} dollars. Altogether that is {1} dollars.",
            "{n} spends {0} dollars on {t}. The total is {1} dollars."),), (
        "{n} buys {a} {t} for {b} dollars each and a coat for {c} dollars. How much does {n} pay in total?",
        "A lamp costs {c} dollars and one {o} costs {b} dollars. {n} buys the lamp and {a} {t}. How many dollars does "
        "{he} pay?",
        "{n} pays {c} dollars for a meal and buys {a} {t} at {b} dollars each. How much money does {he} spend?",
        "How much do {a} {t} and one bag cost together if each {o} costs {b} dollars and the bag costs {c} dollars?"), (
        "The bill of {n} lists {a} {t}, {b} dollars apiece, and a hat for {c} dollars. What is the sum at the "
        "bottom?",),
        about="money"),
    Schema("saving, still missing", "a 2-12, b 2-12, p = a * b, r 2-90, c = p + r", (
        way("p = a * b; r = c - p", "{n} saves {0} dollars. {He} still needs {1} dollars.",
            "After {a} weeks {he} has {0} dollars. That leaves {1} dollars."),), (
        "{n} wants to buy a bicycle for {c} dollars. {He} saves {b} dollars a week for {a} weeks. "
        "How many dollars does {he} still need?",
        "A radio costs {c} dollars. {n} puts aside {b} dollars every week. How much is missing after {a} weeks?",
        "{n} saves {b} dollars each week. After {a} weeks, how much more does {he} need for a watch that costs {c} "
        "dollars?",
        "{n} needs {c} dollars. {He} has saved {b} dollars a week for {a} weeks. How many more dollars must {he} "
        "save?"), (
        "The price of the guitar is {c} dollars, and for {a} weeks {n} has laid {b} dollars in a jar each week. "
        "What gap remains?",), about="money"),
    Schema("weeks to save", "c 2-10, r 2-12, p = c * r, b 2-60, a = p + b", (
        way("p = a - b; r = p / c", "{n} still needs {0} dollars. That takes {1} weeks.",
            "There are {0} dollars missing. So {he} has to save for {1} weeks."),), (
        "{n} wants a camera that costs {a} dollars. {He} has {b} dollars and saves {c} dollars a week. "
        "How many weeks does {he} have to save?",
        "A tent costs {a} dollars. {n} already has {b} dollars and puts aside {c} dollars every week. "
        "In how many weeks can {he} buy the tent?",
        "{n} owes {m} {a} dollars. {He} pays back {b} dollars at once and then {c} dollars each week. "
        "How many weeks does it take to pay the rest?"), (
        "With {b} dollars in hand and {c} more every week, when does {n} reach {a} dollars? Give the number of "
        "weeks.",),
        about="money"),
    Schema("there and back", "k 2, b 2-6, a 2-12", (
        way("p = b * k; r = p * a", "There and back is {0} kilometers. In {a} days that is {1} kilometers.",
            "Each day {he} goes {0} kilometers. In total {he} goes {1} kilometers."),), (
        "{n} lives {b} kilometers from school and cycles there and back every day. How many kilometers does {he} cycle "
        "in {a} days?",
        "It is {b} kilometers from the house of {n} to the office. {He} drives there and back each day for {a} days. "
        "How far is that in kilometers?",
        "Every day {n} walks {b} kilometers to the lake and the same way back. How many kilometers does {he} walk in "
        "{a} days?"), (
        "The way to work is {b} kilometers long, and {n} also has to come home. What distance adds up over {a} days?",),
        about="distance"),
    Schema("drive and drive on", "g 2-9, k 10, b = g * k, a 2-9, c 3-90", (
        way("p = b * a; r = p + c", "It is {0} kilometers at first. Altogether it is {1} kilometers.",
            "In {a} hours that makes {0} kilometers. With the rest it is {1} kilometers."),), (
        "{n} drives {b} kilometers an hour for {a} hours and then {c} kilometers more. How far does {n} drive?",
        "{n} takes a train that goes {b} kilometers every hour. After {a} hours there are {c} kilometers to go. "
        "How long is the whole way in kilometers?",
        "{n} rides on a bus at {b} kilometers per hour for {a} hours. Then {he} walks another {c} kilometers. "
        "How many kilometers is that in all?"), (
        "For {a} hours the truck of {n} keeps a speed of {b} kilometers per hour; {c} kilometers follow after that. "
        "What does the whole trip measure?",), about="distance"),
    Schema("way still to go", "b 2-12, a 2-12, p = b * a, r 2-90, c = p + r", (
        way("p = b * a; r = c - p", "So far it is {0} kilometers. There are {1} kilometers left.",
            "{n} has gone {0} kilometers. {He} still has {1} kilometers to go."),), (
        "{n} goes on a trip of {c} kilometers. {He} cycles {b} kilometers an hour for {a} hours. How many kilometers "
        "are left?",
        "The way to the sea is {c} kilometers long. {n} rides {b} kilometers every hour. How far does {he} still have "
        "to go after {a} hours?",
        "A path is {c} kilometers long. {n} walks {b} kilometers a day for {a} days. How many kilometers remain?"), (
        "{a} hours at {b} kilometers per hour lie behind {n}, and the goal was {c} kilometers from the start. "
        "What part is still ahead?",), about="distance"),
    Schema("older, in some years", "a 5-60, b 2-30, c 2-20", (
        way("p = a + b; r = p + c", "{m} is {0} years old now. In {c} years {m} will be {1}.",
            "Today the age of {m} is {0}. Later it will be {1}."),
        way("q = a + c; r = q + b", "In {c} years {n} will be {0}. Then {m} will be {1}.")), (
        "{n} is {a} years old. {m} is {b} years older. How old will {m} be in {c} years?",
        "{m} is {b} years older than {n}, who is {a}. What will be the age of {m} in {c} years?",
        "How old will {m} be {c} years from now if {n} is {a} today and {m} is {b} years older than {n}?"), (
        "{n} has just turned {a}. {m} was born {b} years earlier. What age does {m} reach {c} years from today?",),
        about="age"),
    Schema("younger, in some years", "a 8-80, b < a, c 2-20", (
        way("p = a - b; r = p + c", "{m} is {0} years old now. In {c} years {m} will be {1}.",
            "Today the age of {m} is {0}. Later it will be {1}."),
        way("q = a + c; r = q - b", "In {c} years {n} will be {0}. Then {m} will be {1}.")), (
        "{n} is {a} years old. {m} is {b} years younger. How old will {m} be in {c} years?",
        "{m} is {b} years younger than {n}, who is {a}. What will be the age of {m} in {c} years?",
        "How old will {m} be {c} years from now if {n} is {a} today and {m} is {b} years younger than {n}?"), (
        "{n} has just turned {a}. {m} was born {b} years later. What age does {m} reach {c} years from today?",),
        about="age"),
    Schema("pages left", "a 2-12, b 2-12, p = a * b, r 2-200, c = p + r", (
        way("p = b * a; r = c - p", "{n} reads {0} pages. There are {1} pages left.",
            "In {a} days that makes {0} pages. So {1} pages remain."),), (
        "A book has {c} pages. {n} reads {b} pages a day for {a} days. How many pages are left?",
        "{n} reads {b} pages of a book every day. The book has {c} pages. How many pages does {he} still have to read "
        "after {a} days?",
        "{n} has read {b} pages on each of {a} days. How many pages remain if the book has {c} pages?"), (
        "On {a} evenings {n} got through {b} pages each. The novel counts {c} pages. What is unread?",), about="pages"),
    Schema("days to read", "c 2-10, r 2-12, p = c * r, b 2-90, a = p + b", (
        way("p = a - b; r = p / c", "There are {0} pages left. That takes {1} days.",
            "{n} still has {0} pages to read. So {he} needs {1} days."),), (
        "A book has {a} pages. {n} has read {b} pages and now reads {c} pages a day. How many days does {he} need for "
        "the rest?",
        "{n} has read {b} of the {a} pages of a book. {He} reads {c} pages every day. In how many days is {he} done?",
        "{n} wants to read all {a} pages of a story. {b} pages are done. {He} reads {c} pages a day. How many days "
        "will the rest take?"), (
        "{b} of {a} pages are behind {n}. At {c} pages a day, what number of days is still needed?",), about="pages"),
    Schema("who spends more", "a 2-12, b 3-12, p = a * b, c < p", (
        way("p = a * b; r = p - c", "For {n} it is {0} dollars. That is {1} dollars more.",
            "Altogether {n} comes to {0} dollars. The difference is {1} dollars."),), (
        "{n} buys {a} {t} for {b} dollars each. {m} spends {c} dollars. How much more does {n} spend than {m}?",
        "{m} spends {c} dollars. {n} buys {a} {t} at {b} dollars each. How many dollars more than {m} does {n} spend?",
        "{n} works {a} hours for {b} dollars an hour. {m} earns {c} dollars. How much more does {n} earn than {m}?"), (
        "A meal cost {m} {c} dollars, while {n} took {a} {t} at {b} dollars apiece. By what sum did {n} pay more?",),
        about="money"),
    Schema("price of some from others", "a 2-10, p 2-12, b = a * p, c 2-12", (
        way("p = b / a; r = p * c", "One {o} costs {0} dollars. So {c} {t} cost {1} dollars.",
            "The price of one is {0} dollars. The price of {c} is {1} dollars."),), (
        "{a} {t} cost {b} dollars. How much do {c} {t} cost?",
        "{n} pays {b} dollars for {a} {t}. How many dollars would {c} {t} cost?",
        "If {a} {t} cost {b} dollars, what is the price of {c} {t} in dollars?",
        "{n} bought {a} {t} for {b} dollars. {m} wants {c} {t} of the same kind. How much does {m} have to pay?"), (
        "{b} dollars is the price for a set of {a} {t}. At the same rate, what must {n} give for {c}?",),
        about="money"),
    Schema("hours and minutes", "a 2-9, k 60, b 5-55", (
        way("p = a * k; r = p + b", "{a} hours are {0} minutes. Altogether that is {1} minutes.",
            "The hours make {0} minutes. The total is {1} minutes."),), (
        "{n} works for {a} hours and {b} minutes. How many minutes is that?",
        "A film lasts {a} hours and {b} minutes. How many minutes long is the film?",
        "How many minutes are there in {a} hours and {b} minutes?",
        "The train ride of {n} takes {a} hours and {b} minutes. How long is that in minutes?"), (
        "Give the length of a walk in minutes, if {n} was out for {a} hours plus {b} minutes.",), about="time"),
    Schema("time for pieces and a break", "a 2-12, b 2-12, c 5-60", (
        way("p = a * b; r = p + c", "The first part takes {0} minutes. With the second it is {1} minutes.",
            "{n} needs {0} minutes at first. Altogether it is {1} minutes."),), (
        "{n} needs {b} minutes to paint one toy. {He} paints {a} toys and has a break of {c} minutes. How many minutes "
        "does it take in all?",
        "It takes {n} {b} minutes to wash one cup. {He} washes {a} cups and then cooks for {c} minutes. How many "
        "minutes is {he} busy?",
        "{n} runs {a} rounds of {b} minutes each and rests for {c} minutes. How long is that in minutes?"), (
        "{c} minutes of rest and {a} songs of {b} minutes: for what number of minutes does the concert of {n} last?",),
        about="time"),
    Schema("rope", "a 2-12, b 2-12, p = a * b, r 2-90, c = p + r", (
        way("p = a * b; r = c - p", "The pieces are {0} meters long together. There are {1} meters left.",
            "{n} cuts off {0} meters. So {1} meters remain."),), (
        "{n} has a rope of {c} meters. {He} cuts off {a} pieces of {b} meters each. How many meters of rope are left?",
        "From {c} meters of cloth {n} cuts {a} pieces that are {b} meters long. How many meters remain?",
        "A wire is {c} meters long. {n} uses {a} pieces, each {b} meters long. How long is the rest in meters?"), (
        "After {n} took {a} lengths of {b} meters from a {c} meter cable, what is its new length?",), about="distance"),
    Schema("temperature", "a 6-40, b 2-30, p = a + b, c < p", (
        way("p = a + b; r = p - c", "First it goes up: {0} degrees. Then it goes down: {1} degrees.",
            "It rises to {0} degrees. It falls to {1} degrees."),), (
        "In the morning it is {a} degrees. By noon it gets {b} degrees warmer, and by evening {c} degrees colder "
        "again. How many degrees is it in the evening?",
        "The water has {a} degrees. {n} heats it by {b} degrees, then it cools by {c} degrees. How many degrees does "
        "it have now?",
        "It is {a} degrees outside. It gets warmer by {b} degrees and then colder by {c} degrees. What is the "
        "temperature in the end?"), (
        "From {a} degrees the oven of {n} goes up by {b} and then down by {c}. Which temperature does it show?",),
        about="degrees"),
    Schema("pay for work", "a 2-12, b 2-12, p = a * b, c < p", (
        way("p = a * b; r = p - c", "{n} gets {0} dollars. {He} has {1} dollars left.",
            "That brings {0} dollars. After that {1} dollars remain."),), (
        "{n} works {a} hours and earns {b} dollars an hour. {He} spends {c} dollars. How many dollars does {he} have "
        "left?",
        "{n} sells {a} {t} for {b} dollars each and then buys a bag for {c} dollars. How much money is left?",
        "For every lawn {n} mows {he} gets {b} dollars. {He} mows {a} lawns and pays {c} dollars for fuel. "
        "How many dollars does {he} keep?"), (
        "{a} hours at a wage of {b} dollars, minus a lunch for {c} dollars: what does {n} bring home?",),
        about="money"),
    Schema("perimeter", "a 2-60, b 2-60, k 2", (
        way("p = a + b; r = p * k", "One long side and one short side make {0} meters. Twice that is {1} meters.",
            "Length and width make {0}. All around it is {1} meters."),), (
        "A garden is {a} meters long and {b} meters wide. How many meters is it all around?",
        "What is the perimeter of a field that is {a} meters long and {b} meters wide?",
        "{n} builds a fence around a yard of {a} meters by {b} meters. How many meters of fence does {he} need?"), (
        "Walking once along the edge of a lawn of {a} by {b} meters, what way does {n} go?",), about="distance"),
    Schema("half, then some gone", "k 2, q 4-60, a = k * q, c < q", (
        way("q = a / k; r = q - c", "Half of them is {0}. Then {1} are left.", "Half is {0}. Then {1} remain."),), (
        "{n} has {a} {t}. {He} gives half of them to {m} and then loses {c}. How many {t} does {n} have left?",
        "There are {a} {t} in a {box}. Half of them are sold, and then {c} more are sold. How many {t} are left?"), (
        "One of every two of the {a} {t} went to {m}, and {c} others got broken. What does {n} still hold?",)),
    Schema("half, then some more", "k 2, q 2-60, a = k * q, c 2-60", (
        way("q = a / k; r = q + c", "Half of them is {0}. With the new ones it is {1}.",
            "First {0} remain. Then there are {1}."),), (
        "{n} has {a} {t}. {He} gives half of them to {m} and then finds {c}. How many {t} does {n} have now?",
        "Half of {a} {t} in a {box} are sold. Then {c} new ones come in. How many {t} are in the {box} now?"), (
        "One of every two of the {a} {t} went to {m}, and {c} new ones came in. What does {n} hold?",)),
    Schema("rate with more", "b 2-12, a 2-12, c 2-90", (
        way("p = b * a; r = p + c", "At first it is {0}. Altogether it is {1}.", "That is {0}. The total is {1}."),), (
        "{n} makes {b} {t} a day for {a} days and then {c} more. How many {t} does {n} make?",
        "{n} has {c} dollars and saves {b} dollars a week. How many dollars does {he} have after {a} weeks?",
        "A tank holds {c} liters. Every minute {b} liters flow in. How many liters are in it after {a} minutes?"), (
        "To {c} finished {t}, {n} adds {b} on each of {a} days. What is the number then?",), about="money"),
)
