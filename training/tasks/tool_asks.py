"""How the properties of invented things are asked: clauses for the wording engine, by kind and property.

{e} is the thing; in comparisons {a} is the one that has more (or less, where it is a matter of age), {b} the other.
"""

from __future__ import annotations

from random import Random

from ..items import upper_first
from ..wording import SEEN, Relation, relation, request, wordings

FIELDS = """
# mountain / height
noun: the height of {e} / the height of {e} in metres / the number of metres that {e} rises to
ask: how [high|tall] is {e} / how [high|tall] is {e} in metres / how many metres [high|tall] is {e}
     / how high does {e} rise
     / how many metres does {e} [measure|rise] / how [high|tall] can {e} be
clause: how [high|tall] {e} is / how many metres [high|tall] {e} is / how high {e} rises
then: how [high|tall] is it / how many metres [high|tall] is it / what is the height / how high does it rise
terse: {e}, height / height {e} / {e} height? / measure {e} in metres.
# mountain / year of the first climb
noun: the year of the first climb of {e} / the year in which {e} was first climbed
ask: when was {e} [first climbed|climbed first|climbed for the first time]
     / in [which|what] year was {e} first climbed
     / what year did people first climb {e} / when did [people|somebody|someone] climb {e} first
     / when was the first climb of {e} / [which|what] year saw the first climb of {e}
clause: when {e} was first climbed / in which year {e} was first climbed / when people first climbed {e}
then: when was it first climbed / in which year was it climbed first / when did people first climb it
terse: {e}, first climb / first climb of {e}: year?
# mountain / range
noun: the range of {e} / the range that {e} is part of / the range that {e} belongs to
ask: [which|what] range is {e} [part of|in] / to which range does {e} belong / [which|what] range does {e} belong to
     / in [which|what] range is {e} / in which range does {e} lie / of which range is {e} a part
clause: which range {e} is part of / which range {e} belongs to / in which range {e} lies
then: which range is it part of / which range does it belong to / in which range does it lie
terse: {e}, range / range of {e}?
# town / population
noun: the population of {e} / the number of people in {e} / the number of inhabitants of {e}
ask: how many [people|inhabitants|persons|citizens] live in {e}
     / how many [inhabitants|citizens|people] does {e} have
     / how [large|big] is the population of {e} / [what|which] number of people [live|lives] in {e}
     / how many people [are there|are] in {e} / how many people call {e} their home
clause: how many [people|inhabitants] live in {e} / how many inhabitants {e} has
     / how large the population of {e} is
then: how many people live there / how many inhabitants does it have / what is the population / how large is it
terse: {e}, population / population {e} / inhabitants of {e}? / count the people of {e}.
# town / founding year
noun: the founding year of {e} / the year in which {e} was founded
ask: when was {e} [founded|built|set up|started] / in [which|what] year was {e} [founded|built]
     / what year was {e} founded / when did people [found|start|build] {e}
     / [which|what] year is the founding year of {e}
     / from which year is {e} / when did {e} begin
clause: when {e} was [founded|built] / in which year {e} was founded / when {e} began
then: when was it founded / in which year was it founded / what is its founding year
terse: {e}, founding year / {e} founded when? / founded: {e}?
# town / river
noun: the river of {e} / the river that runs through {e} / the river on which {e} lies
     / the name of the river in {e}
ask: [which|what] river does {e} lie on / [which|what] river [runs|flows|goes] through {e}
     / on [which|what] river is {e}
     / what is the river in {e} called / on which river does {e} lie / which river crosses {e}
clause: which river {e} lies on / which river [runs|flows] through {e} / on which river {e} is
then: which river does it lie on / what river runs through it / on which river is it
terse: {e}, river / river of {e}?
# town / mayor
noun: the mayor of {e} / the name of the mayor of {e} / the person who is mayor of {e}
ask: who is mayor [in|of] {e} / who is the mayor in {e} / what is the mayor of {e} called
     / who [leads|governs|heads] {e}
     / [which|what] person is mayor of {e} / what is the name of {e}'s mayor / who was made mayor of {e}
clause: who is mayor of {e} / who the mayor of {e} is / what the mayor of {e} is called
then: who is the mayor / who is mayor there / what is the mayor called
terse: {e}, mayor / mayor of {e}?
# river / length
noun: the length of {e} / the length of {e} in kilometres / the number of kilometres that {e} runs
ask: how long is {e} / how many kilometres long is {e} / how many kilometres does {e} [run|flow|measure]
     / how long is {e} in kilometres / how far does {e} [run|flow]
clause: how long {e} is / how many kilometres long {e} is / how far {e} runs
then: how long is it / how many kilometres long is it / what is its length
terse: {e}, length / length {e} / length of {e} in kilometres?
# river / mouth
noun: the mouth of {e} / the lake that {e} flows into / the lake in which {e} ends / the lake at the end of {e}
ask: where does {e} [end|flow|go] / [which|what] lake does {e} flow into
     / into [which|what] lake does {e} [flow|run]
     / in [which|what] lake does {e} end / [which|what] lake [takes|gets] the water of {e}
clause: where {e} ends / which lake {e} flows into / into which lake {e} flows
then: where does it end / which lake does it flow into / where does its water go
terse: {e}, mouth / mouth of {e}? / lake at the end of {e}?
# river / source
noun: the source of {e} / the mountain where {e} rises / the mountain with the source of {e}
ask: where does {e} [rise|begin|start|come from] / on [which|what] mountain is the source of {e}
     / on [which|what] mountain does {e} [rise|begin|start] / from [which|what] mountain does {e} come
clause: where {e} rises / on which mountain {e} rises / on which mountain the source of {e} is
then: where does it rise / on which mountain does it begin / where is its source
terse: {e}, source / source of {e}?
# person / year of birth
noun: the year of birth of {e} / the year in which {e} was born / the birth year of {e}
ask: when was {e} born / in [which|what] year was {e} born / what year was {e} born[ in|]
     / when did {e} come into the world
     / [which|what] is the year of birth of {e} / when was the birth of {e}
clause: when {e} was born / in which year {e} was born / what year {e} was born in
then: what is the year of birth / what is the birth year / which year of birth do we know
terse: {e}, year of birth / {e} born when? / birth year of {e}?
# person / birthplace
noun: the birthplace of {e} / the town where {e} was born / the place of birth of {e}
     / the town in which {e} was born
ask: where was {e} born / in [which|what] [town|place] was {e} born / [which|what] town is the birthplace of {e}
     / where is the birthplace of {e} / where did {e} come into the world
clause: where {e} was born / in which town {e} was born / which town is the birthplace of {e}
then: what is the birthplace / which town is the birthplace / what is the place of birth
terse: {e}, birthplace / birthplace of {e}? / {e} born where?
# person / job
noun: the job of {e} / the profession of {e} / the work of {e} / the occupation of {e}
ask: what does {e} do for a living / [what|which] job does {e} have / what does {e} work as
     / what kind of work does {e} do
     / [what|which] profession does {e} have / what is {e} by profession / what does {e} do
clause: what {e} does for a living / which job {e} has / what {e} works as / what {e} does
then: what is the job / what is the profession / which job is it
terse: {e}, job / job of {e}? / {e} works as what?
# book / author
noun: the author of {e} / the writer of {e} / the person who wrote {e} / the name of the author of {e}
ask: who wrote {e} / by whom was {e} written / who was {e} written by / who has written {e}
     / [which|what] author wrote {e}
     / who is {e} by / what is the author of {e} called
clause: who wrote {e} / who has written {e} / by whom {e} was written / who {e} is by
then: who wrote it / who is the author / who is the writer / by whom was it written
terse: {e}, author / author of {e}? / {e}, by whom?
# book / year
noun: the year of {e} / the year in which {e} came out / the year when {e} was printed
ask: when was {e} [published|printed|first printed] / in [which|what] year did {e} [come out|appear]
     / what year did {e} [appear|come out] / when did {e} [come out|appear] / in which year was {e} published
clause: when {e} [came out|was published|appeared] / in which year {e} came out
then: when did it come out / in which year was it published / what year did it appear
terse: {e}, year / {e} published when?
# book / number of pages
noun: the number of pages of {e} / the number of pages in {e} / the length of {e} in pages
ask: how many pages does {e} have / how many pages long is {e} / how many pages [are there|are] in {e}
     / how thick is {e} in pages / how many pages must one read in {e}
clause: how many pages {e} has / how many pages long {e} is / how many pages are in {e}
then: how many pages does it have / how many pages long is it / how many pages are there
terse: {e}, pages / {e}: number of pages? / count the pages of {e}.
# company / number of employees
noun: the number of employees of {e} / the number of people who work for {e} / the number of employees at {e}
ask: how many [employees|people] does {e} [have|employ] / how many people work [for|at] {e}
     / how many people have a job at {e}
     / how many employees are there at {e} / how big is {e} in employees
clause: how many employees {e} has / how many people work for {e} / how many people {e} employs
then: how many employees does it have / how many people work there / how many people does it employ
terse: {e}, employees / employees of {e}? / count the employees of {e}.
# company / founding year
noun: the founding year of {e} / the year in which {e} was founded
ask: when was {e} [founded|set up|started] / in [which|what] year was {e} [founded|started|set up]
     / when did {e} [begin|start]
     / what year was {e} founded / from which year is {e}
clause: when {e} was founded / in which year {e} was founded / when {e} began
then: when was it founded / in which year was it started / what is its founding year
terse: {e}, founding year / {e} founded when?
# company / director
noun: the director of {e} / the head of {e} / the person who leads {e} / the name of the director of {e}
ask: who [leads|directs|heads|runs|manages] {e} / who is director of {e} / what is the director of {e} called
     / who is the boss of {e} / who is at the head of {e}
clause: who leads {e} / who [directs|runs] {e} / who the director of {e} is
then: who is the director / who leads it / who is its head
terse: {e}, director / director of {e}?
# company / home town
noun: the home town of {e} / the town where {e} is based / the seat of {e} / the town with the main office of {e}
ask: in [which|what] town is {e} based / where is the main office of {e} / where is {e} based
     / where does {e} have its seat
     / in which town does {e} have its main office / [which|what] town is the home of {e}
clause: where {e} is based / in which town {e} is based / where the main office of {e} is
then: where is it based / in which town is its main office / what is its home town
terse: {e}, home town / home town of {e}? / {e} is where?
# product / price
noun: the price of {e} / the cost of {e} / the price of {e} in dollars / the sum that {e} costs
ask: what does {e} cost / how much is {e} / how many dollars [does {e} cost|is {e}|must I pay for {e}]
     / how much does {e} cost
     / what do I [pay|have to pay] for {e} / how [expensive|dear] is {e} / how much money is {e}
clause: what {e} costs / how much {e} costs / how much {e} is / how many dollars {e} costs
then: what does it cost / how much is it / how much does it cost / what is the price
terse: {e}, price / price of {e}? / {e} - how much?
# product / weight
noun: the weight of {e} / the weight of {e} in grams / the number of grams that {e} weighs
ask: how much does {e} weigh / how many grams does {e} [weigh|have] / how heavy is {e} / what does {e} weigh
     / how heavy is {e} in grams
clause: how much {e} weighs / how heavy {e} is / how many grams {e} weighs / what {e} weighs
then: how much does it weigh / how heavy is it / what is the weight
terse: {e}, weight / weight of {e}? / weigh {e}.
# product / colour
noun: the colour of {e} / the colour that {e} has / the color of {e}
ask: [what|which] colour is {e} / [which|what] colour does {e} have / in [which|what] colour is {e} sold
     / what color is {e}
     / in which colour does {e} come
clause: what colour {e} is / which colour {e} has / in which colour {e} is sold
then: what colour is it / which colour does it have / what is the colour
terse: {e}, colour / colour of {e}?
# product / maker
noun: the maker of {e} / the company that makes {e} / the firm behind {e} / the company that produces {e}
ask: who makes {e} / [which|what] company [makes|produces|builds] {e} / by [which|what] company is {e} made
     / who produces {e}
     / who is {e} made by / which firm makes {e}
clause: who makes {e} / which company makes {e} / by which company {e} is made
then: who makes it / which company makes it / who is the maker
terse: {e}, maker / maker of {e}?
# tower / number of steps
noun: the number of steps of {e} / the number of steps in {e} / the number of steps up {e}
ask: how many steps does {e} have / how many steps are there in {e} / how many steps lead [up|to the top of] {e}
     / how many steps are in {e} / how many steps has {e}
clause: how many steps {e} has / how many steps are in {e} / how many steps lead up {e}
then: how many steps does it have / how many steps are there / how many steps lead to the top
terse: {e}, steps / steps of {e}? / count the steps of {e}.
# tower / opening year
noun: the opening year of {e} / the year in which {e} opened / the year when {e} was opened
ask: when did {e} open / in [which|what] year was {e} opened / what year did {e} open / in which year did {e} open
     / when was {e} opened / when was the opening of {e}
clause: when {e} opened / in which year {e} was opened / when {e} was opened
then: when did it open / in which year was it opened / what is the opening year
terse: {e}, opening year / {e} opened when?
# tower / architect
noun: the architect of {e} / the person who planned {e} / the name of the architect of {e}
ask: who planned {e} / who [designed|built] {e} / by whom was {e} planned / what was the architect of {e} called
     / who was the architect of {e} / which architect planned {e}
clause: who planned {e} / who designed {e} / who the architect of {e} was
then: who planned it / who was the architect / who designed it
terse: {e}, architect / architect of {e}?
"""

COMPARED = """
# founded / gap
noun: the number of years between the founding of {a} and {b} / the number of years by which {a} is older than {b}
ask: how many years before {b} was {a} founded / how many years older is {a} than {b}
     / by how many years is {a} older than {b}
     / how much older is {a} than {b} / how many years earlier than {b} was {a} founded
     / how many years lie between the
     founding of {a} and that of {b} / how many years younger is {b} than {a}
     / how much later than {a} was {b} founded
clause: how many years older {a} is than {b} / how much older {a} is than {b}
     / how many years {a} was founded before {b}
terse: {a} is older than {b}. By how many years? / {b} is younger than {a}. How many years?
# mountain / gap
noun: the difference in height between {a} and {b} / the number of metres by which {a} is higher than {b}
ask: how much [higher|taller] is {a} than {b} / how many metres [higher|taller] is {a} than {b}
     / by how many metres is {a}
     higher than {b} / how many metres lower is {b} than {a} / how much lower is {b} than {a}
     / how large is the difference
     in height between {a} and {b}
clause: how much [higher|taller] {a} is than {b} / how many metres higher {a} is than {b}
     / how much lower {b} is than {a}
terse: {a} is higher than {b}. How many metres higher? / {b} is lower than {a}. How much lower?
# town / gap
noun: the difference in population between {a} and {b} / the number of people that {a} has more than {b}
ask: how many more people live in {a} than in {b} / how much larger is the population of {a} than that of {b}
     / by how many people is {a} larger than {b} / how many [people|inhabitants] more does {a} have than {b}
     / how many fewer people live in {b} than in {a} / by how many people is {b} smaller than {a}
clause: how many more people live in {a} than in {b} / by how many people {a} is larger than {b}
terse: {a} has more people than {b}. How many more? / {b} has fewer people than {a}. How many fewer?
# town / total
noun: the total population of {a} and {b} / the number of people in {a} and {b} together
     / the population of {a} plus {b}
ask: how many people live in {a} and {b} [together|in all|in total] / together, how many people live in {a} and {b}
     / how many inhabitants do {a} and {b} have [together|in all|in total]
     / how large is the population of {a} plus that
     of {b}
clause: how many people live in {a} and {b} [together|in all|in total]
     / how many inhabitants {a} and {b} have together
terse: add up the populations of {a} and {b}. / {a} plus {b}: how many people?
     / count the people of both {a} and {b}.
# river / gap
noun: the difference in length between {a} and {b} / the number of kilometres by which {a} is longer than {b}
ask: how much longer is {a} than {b} / how many kilometres longer is {a} than {b}
     / by how many kilometres is {a} longer
     than {b} / how much shorter is {b} than {a} / how many kilometres shorter is {b} than {a}
clause: how much longer {a} is than {b} / how many kilometres longer {a} is than {b}
     / how much shorter {b} is than {a}
terse: {a} is longer than {b}. How many kilometres longer? / {b} is shorter than {a}. How much shorter?
# river / total
noun: the total length of {a} and {b} / the length of {a} and {b} together / the sum of the lengths of {a} and {b}
ask: how long are {a} and {b} [together|in all|in total] / how many kilometres are {a} and {b} together
clause: how long {a} and {b} are [together|in all|in total] / how many kilometres {a} and {b} are together
terse: add up the lengths of {a} and {b}. / {a} plus {b}: how many kilometres?
# person / gap
noun: the age difference between {a} and {b} / the number of years by which {a} is older than {b}
ask: how many years older is {a} than {b} / how many years before {b} was {a} born
     / by how many years is {a} older than {b}
     / how much older is {a} than {b} / how many years younger is {b} than {a}
     / how many years after {a} was {b} born
clause: how many years older {a} is than {b} / how much older {a} is than {b}
     / how many years {a} was born before {b}
terse: {a} is older than {b}. By how many years? / {b} is younger than {a}. By how many years?
# book / gap
noun: the number of years between {a} and {b} / the number of years by which {a} came out before {b}
ask: how many years before {b} did {a} [come out|appear] / how many years earlier than {b} did {a} [appear|come out]
     / how many years after {a} did {b} [come out|appear] / how many years older is {a} than {b}
clause: how many years before {b} {a} came out / how many years {a} came out before {b}
terse: {a} came out before {b}. How many years before? / {b} came out after {a}. How many years after?
# company / gap
noun: the number of employees that {a} has more than {b} / the difference in employees between {a} and {b}
ask: how many more [employees|people] does {a} [have|employ] than {b} / by how many employees is {a} larger than {b}
     / how many more people work for {a} than for {b} / how many fewer people work for {b} than for {a}
clause: how many more employees {a} has than {b} / by how many employees {a} is larger than {b}
terse: {a} employs more people than {b}. How many more? / {b} has fewer employees than {a}. How many fewer?
# company / total
noun: the total number of employees of {a} and {b} / the number of employees of {a} and {b} together
ask: how many employees do {a} and {b} have [together|in all|in total]
     / how many people work for {a} and {b} [together|in all]
clause: how many employees {a} and {b} have [together|in all] / how many people work for {a} and {b} together
terse: add up the employees of {a} and {b}. / {a} plus {b}: how many employees?
# product / gap
noun: the difference in weight between the {a} and the {b}
     / the number of grams by which the {a} is heavier than the {b}
ask: how many grams heavier is the {a} than the {b} / how much more does the {a} weigh than the {b}
     / by how many grams is
     the {a} heavier than the {b} / how much heavier is the {a} than the {b}
     / how much lighter is the {b} than the {a}
clause: how much heavier the {a} is than the {b} / how many grams heavier the {a} is than the {b}
terse: the {a} is heavier than the {b}. By how many grams? / the {b} is lighter than the {a}. How many grams?
# product / total
noun: the total weight of the {a} and the {b} / the weight of the {a} and the {b} together
ask: how much do the {a} and the {b} weigh [together|in all|in total] / how heavy are the {a} and the {b} together
clause: how much the {a} and the {b} weigh [together|in all] / how heavy the {a} and the {b} are together
terse: add up the weights of the {a} and the {b}. / the {a} plus the {b}: how many grams?
# tower / gap
noun: the difference in steps between {a} and {b} / the number of steps that {a} has more than {b}
ask: how many more steps does {a} have than {b} / by how many steps is {a} ahead of {b}
     / how many fewer steps does {b} have
     than {a} / how many steps more are there in {a} than in {b}
clause: how many more steps {a} has than {b} / how many fewer steps {b} has than {a}
terse: {a} has more steps than {b}. How many more? / {b} has fewer steps than {a}. How many fewer?
# tower / total
noun: the total number of steps of {a} and {b} / the number of steps of {a} and {b} together
ask: how many steps do {a} and {b} have [together|in all|in total]
     / how many steps are there in {a} and {b} together
clause: how many steps {a} and {b} have [together|in all|in total]
terse: add up the steps of {a} and {b}. / {a} plus {b}: how many steps?
# opening / gap
noun: the number of years between the opening of {a} and {b} / the number of years by which {a} opened before {b}
ask: how many years before {b} did {a} open / how many years after {a} did {b} open
     / how many years earlier than {b} was {a}
     opened / how many years older is {a} than {b}
clause: how many years before {b} {a} opened / how many years after {a} {b} opened
terse: {a} opened before {b}. How many years before? / {b} opened after {a}. How many years after?
"""
ABOUT = {"town": "city", "book": "book"}
PERSONS = ("mayor", "author", "director", "architect")


def _sections(text: str) -> dict[str, Relation]:
    """Each `# kind / property` with its clauses."""
    out = {}
    for section in text.strip().removeprefix("# ").split("\n# "):
        title, _, clauses = section.partition("\n")
        kind, noun = title.split(" / ")
        who = "who" if noun in PERSONS else "what"
        out[f"{kind}/{noun}"] = relation(title, ABOUT.get(kind, ""), {}, clauses, who=who)
    return out


ASKS = _sections(FIELDS + COMPARED)


def question(rng: Random, asks: Relation, **names: object) -> str:
    """A request in one of the many wordings of training."""
    core, plain = wordings(asks, SEEN).pick(rng)
    return upper_first(request(rng, core, plain).format(**names))
