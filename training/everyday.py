"""How facts about people's works, words, numbers, the calendar and everyday things are asked and said."""

from __future__ import annotations

from .things import (
    AUTHORS,
    COLORS,
    COMPOSERS,
    COUNTS,
    DAYS,
    DEFINITIONS,
    DISCOVERERS,
    DISHES,
    FIRSTS,
    GROWS,
    HELLO,
    INSTRUMENTS,
    INVENTORS,
    KINDS,
    MADE_FROM,
    MIXES,
    MONTHS,
    OPPOSITES,
    ORDER,
    PAINTERS,
    PAST,
    PLURAL_WORDS,
    RECORDS,
    SEASONS,
    SENSES,
    SIDES,
    SPORTS,
    WORK,
    WORKPLACES,
)
from .wording import relation


def _next(row: tuple[str, ...], step: int) -> dict[str, str]:
    return {name: row[(i + step) % len(row)] for i, name in enumerate(row)}


WORK_FOR_ALL = ("a school", "a hospital", "a laboratory", "a bank", "a kitchen", "a library")
_months = tuple(MONTHS)
EITHER_WAY = {" and ".join(reversed(pair.split(" and "))): color for pair, color in MIXES.items()}

WORKS_OF_PEOPLE = (
    relation("inventor", "invention", INVENTORS, """
noun: the inventor of {e} / the name of the inventor of {e} / the person who invented {e} / the creator of {e}
    / the one who invented {e} / the person behind {e}
ask: who invented {e} / who was the inventor of {e} / who made the first version of {e} / who came up with {e}
    / who created {e} / who was the first to build {e} / by whom was {e} invented / who is the inventor of {e}
    / to whom do we owe {e} / who gave us {e} / who had the idea for {e} / {e} was invented by whom
    / {e} was whose invention / whose invention is {e} / who is the person who invented {e} / who developed {e}
    / who do we thank for {e} / which person invented {e} / which inventor came up with {e} / who is behind {e}
clause: who invented {e} / who came up with {e} / who created {e} / who the inventor of {e} is
    / by whom {e} was invented
    / who was the first to build {e} / whose invention {e} was / who we have to thank for {e}
say: the inventor of {e} is {v} / {e} was invented by {v} / {e} was the idea of {v} / the person who invented {e} is {v}
    / we owe {e} to {v}
then: who invented it / who came up with that / who was its inventor / who made the first one / whose idea was it
    / who created it / whose invention is it
terse: {b} inventor / inventor {b} / inventor of {b} / who invented {b} / {b} invented by / {b}: inventor?
check: did {v} invent {e} / was {e} invented by {v} / is {v} the inventor of {e} / did {v} come up with {e}
    / was {v} the inventor of {e} / do we owe {e} to {v}
back: what did {v} invent / what is {v} known for / what was the invention of {v} / what did {v} come up with
    / what do we owe to {v} / what did {v} create / for what invention is {v} famous / which invention is by {v}
    / what is {v} famous for / which invention do we owe to {v} / why is {v} famous
back_noun: the invention of {v} / the thing that {v} invented / {v}'s invention / the famous invention of {v}
back_say: {v} invented {e}
unseen: who sat in the workshop and worked out {e} / which clever person first had {e}
    / whose name belongs to the invention of {e}
unseen_back: which new thing did {v} give to the world
""", who="who"),
    relation("discoverer", "discovery", DISCOVERERS, """
noun: the discoverer of {e} / the name of the discoverer of {e} / the person who discovered {e}
    / the scientist who discovered {e} / the one who found {e}
ask: who discovered {e} / who was the discoverer of {e} / who found {e} / who first found {e}
    / who is the discoverer of {e} / which scientist discovered {e} / who was the first to describe {e}
    / to whom do we owe the discovery of {e} / who came up with {e}
    / which person discovered {e}
clause: who discovered {e} / who found {e} / who the discoverer of {e} is
    / who first described {e} / which scientist discovered {e}
say: the discoverer of {e} is {v} / the discovery of {e} was made by {v}
    / we owe the discovery of {e} to {v}
then: who discovered that / who found that / who made that discovery / which scientist discovered that
    / whose discovery was that
terse: {b} discoverer / who discovered {b} / discovery of {b} / {b} discovered by / discoverer {b}
check: did {v} discover {e} / is {v} the discoverer of {e} / was {v} the discoverer of {e}
    / did {v} find {e}
back: what did {v} discover / what is {v} known for / what was the discovery of {v} / what did {v} find
    / for what discovery is {v} famous / what is {v} famous for / which discovery do we owe to {v} / why is {v} famous
back_noun: the discovery of {v} / the thing that {v} discovered / {v}'s discovery / the great discovery of {v}
back_say: {v} discovered {e}
unseen: who was the first human to know of {e} / who gets the credit for {e} in science
unseen_back: with what did {v} surprise science
""", who="who"),
    relation("author", "book", AUTHORS, """
noun: the author of {e} / the writer of {e} / the name of the author of {e} / the person who wrote {e}
    / {e}'s author / the name of the writer of {e} / the one who wrote {e} / the author's name of {e}
ask: who wrote {e} / who is the author of {e} / which author wrote {e} / who was the author of {e} / who penned {e}
    / by whom is {e} / who is {e} by / by whom was {e} written / {e} is by whom / {e} was written by whom
    / who is the writer of {e} / which writer wrote {e} / who was the writer of {e} / whose work is {e}
    / from whose pen is {e} / what is the name of the author of {e} / which writer do we owe {e} to / whose book is {e}
clause: who wrote {e} / who the author of {e} is / which author wrote {e} / who penned {e} / by whom {e} was written
    / who {e} is by / which writer wrote {e} / whose work {e} is
say: the author of {e} is {v} / {e} was written by {v} / {e} is by {v} / the writer of {e} is {v} / {e} is a work of {v}
then: who wrote it / who is the author / who is it by / who wrote that book / who was its author / which writer is it by
    / who penned it / by whom is it
terse: {e} author / author {e} / author of {e} / who wrote {e} / {e} written by / {e}: author? / writer of {e}
    / {e} by who
check: did {v} write {e} / was {e} written by {v} / is {v} the author of {e} / is {e} by {v} / was {v} the author of {e}
    / is {e} a work of {v}
back: what did {v} write / which book did {v} write / which book is by {v} / what is {v} known for
    / what book did {v} write / what is a book by {v} / what is {v} famous for / which book do we owe to {v}
    / for which book is {v} famous / what did the writer {v} write
back_noun: a book by {v} / a work of {v} / the book that {v} wrote / {v}'s book / a book that {v} wrote
    / the famous book by {v}
back_say: {v} wrote {e}
some: name a book by {v}. / which book, for example, did {v} write? / name one work of {v}. / tell me a book by {v}.
    / can you name a book by {v}? / give me one book that {v} wrote. / what did {v} write, for example?
unseen: whose name stands on the cover of {e} / which pen gave us {e} / who made up the story of {e}
unseen_back: in a shop, which title would I find under the name {v}
""", who="who"),
    relation("painter", "work", PAINTERS, """
noun: the painter of {e} / the artist who painted {e} / the person who painted {e} / the name of the painter of {e}
ask: who painted {e} / who is the painter of {e} / which artist painted {e} / by whom is the painting {e}
    / by whom was {e} painted / who made the painting {e} / whose painting is {e} / which painter painted {e}
clause: who painted {e} / which artist painted {e} / by whom {e} was painted / who the painter of {e} is
say: the painter of {e} is {v} / {e} was painted by {v} / {e} is a painting by {v}
then: who painted it / which artist is it by / who is the painter / whose painting is it
terse: {e} painter / who painted {e} / painter of {e} / {e} artist
check: did {v} paint {e} / was {e} painted by {v} / is {v} the painter of {e} / is {e} a painting by {v}
back: what did {v} paint / which painting is by {v} / which famous picture did {v} paint / what is a painting by {v}
back_noun: a painting by {v} / a famous picture by {v}
back_say: {v} painted {e}
unseen: whose brush made {e}
unseen_back: in a museum, which picture would I find under the name {v}
""", who="who"),
    relation("composer", "work", COMPOSERS, """
noun: the composer of {e} / the person who composed {e} / the name of the composer of {e}
ask: who composed {e} / who is the composer of {e} / which composer wrote {e} / who wrote the music of {e}
    / by whom was {e} composed / whose music is {e} / which composer is {e} by
clause: who composed {e} / who wrote the music of {e} / by whom {e} was composed / who the composer of {e} is
say: the composer of {e} is {v} / {e} was composed by {v} / the music of {e} is by {v}
then: who composed it / who wrote the music / who is the composer / whose music is it
terse: {e} composer / who composed {e} / composer of {e}
check: did {v} compose {e} / was {e} composed by {v} / is {v} the composer of {e} / is the music of {e} by {v}
back: what did {v} compose / which music is by {v} / which famous work did {v} compose
back_noun: a famous work by {v}
back_say: {v} composed {e}
unseen: who put the notes of {e} on paper
unseen_back: in a concert, what might I hear by {v}
""", who="who"),
)

WORDS = (
    relation("opposite", "word", {**OPPOSITES, **{v: k for k, v in OPPOSITES.items()}}, """
noun: the opposite of {e} / the opposite of the word {e} / the contrary of {e} / the antonym of {e}
    / a word that means the opposite of {e} / the reverse of {e}
ask: which word is the opposite of {e} / what word means the opposite of {e} / what's the contrary of {e}
    / which word means the opposite of {e} / {e} is the opposite of what / {e} is the opposite of which word
    / how do you say the opposite of {e} / if it is not {e}, what is it
clause: what the opposite of {e} is / which word is the opposite of {e} / what the contrary of {e} is
    / what the antonym of {e} is
say: the opposite of {e} is {v} / the contrary of {e} is {v} / {e} is the opposite of {v}
then: what is its opposite / what is the opposite / which word means the opposite
terse: opposite {e} / {e} opposite / opposite of {e} / antonym {e} / antonym of {e} / {e} antonym / {e}: opposite?
check: is {v} the opposite of {e} / is the opposite of {e} {v} / do {e} and {v} mean the opposite of each other
unseen: turn {e} around: which word do I get / which word says the very reverse of {e}
"""),
    relation("past", "word", PAST, """
noun: the past tense of {e} / the past of {e} / the simple past of {e} / the past form of {e}
    / the past tense of the verb {e}
ask: what is the verb {e} in the past / how do you write {e} in the past / which word is the past tense of {e}
    / how does {e} change in the past / how do I say {e} in the past tense
    / I {e} today, but what is the word for yesterday
clause: what the past tense of {e} is / how to write {e} in the past / what {e} becomes in the past
say: the past tense of {e} is {v} / the past form of {e} is {v} / in the past, {e} becomes {v}
then: what is its past tense / what is the past tense / what is it in the past
terse: past tense {e} / {e} past tense / past of {e} / {e} past / past tense of {e}
check: is {v} the past tense of {e} / is the past tense of {e} {v} / does {e} become {v} in the past
back: of which verb is {v} the past tense / {v} is the past tense of which verb / which verb has the past tense {v}
back_noun: the verb whose past tense is {v}
back_say: {v} is the past tense of {e}
unseen: if it happened last week, what becomes of the verb {e}
"""),
    relation("plural", "word", PLURAL_WORDS, """
noun: the plural of {e} / the plural form of {e} / the plural of the word {e} / the word for more than one {e}
ask: which word is the plural of {e} / how do you write more than one {e} / how do you write the plural of {e}
    / one {e}, two what / how do I form the plural of {e} / what do you call more than one {e}
    / what is {e} in the plural / what do we say for two of them: one {e}, two
clause: what the plural of {e} is / how to write the plural of {e} / what {e} becomes in the plural
say: the plural of {e} is {v} / the plural form of {e} is {v} / in the plural, {e} becomes {v}
then: what is its plural / what is the plural / what do you say for two
terse: plural {e} / {e} plural / plural of {e} / plural form {e} / one {e} two
check: is {v} the plural of {e} / is the plural of {e} {v} / does {e} become {v} in the plural
back: of which word is {v} the plural / {v} is the plural of which word / what is the singular of {v}
back_noun: the singular of {v} / the word whose plural is {v}
back_say: {v} is the plural of {e}
unseen: if there are several, what becomes of the word {e}
"""),
    relation("hello", "language", HELLO, """
noun: the word for hello in {e} / the {e} word for hello / the greeting in {e} / the {e} greeting / hello in {e}
ask: how do you say hello in {e} / how do people say hello in {e} / what do I say to greet someone in {e}
    / how do I greet people in {e} / what is hello in {e} / how do you greet someone in {e} / how is hello said in {e}
    / which word means hello in {e} / hello in {e} is what / in {e}, how do you say hello
clause: how to say hello in {e} / what hello is in {e} / how people say hello in {e} / how to greet someone in {e}
say: the word for hello in {e} is {v} / hello in {e} is {v} / in {e} people say hello with the word {v}
terse: hello in {e} / {e} hello / {e} greeting / {e} for hello
check: is {v} the word for hello in {e} / does {v} mean hello in {e} / do you say {v} for hello in {e}
back: in which language does {v} mean hello / which language is {v} from / in what language do people say {v}
back_noun: the language in which {v} means hello
back_say: {v} means hello in {e}
unseen: what would a friendly {e} speaker call out to me in the morning
unseen_back: somebody greets me with {v}; which language is it
"""),
    relation("definition", "thing", DEFINITIONS, """
noun: the meaning of the word {b} / the definition of {e} / the meaning of {b}
ask: what is {e} / what does the word {b} mean / what do we call {e} / what is meant by {e} / how would you define {e}
    / what does {b} mean
clause: what {e} is / what the word {b} means / what {b} means / what is meant by {e}
say: {e} is {v}
terse: define {b} / {b} meaning / meaning of {b} / {b} definition / {b}?
check: is {e} {v}
back: what do you call {v} / what is the word for {v} / what is {v} called / which word means {v} / what do we call {v}
back_noun: the word for {v} / the name for {v}
back_say: {v} is called {e}
unseen: how would you explain {e} to a child
unseen_back: which word would I look up to read about {v}
"""),
)

COUNTING_AND_TIME = (
    relation("count", "count", COUNTS, """
noun: the number of {e}
ask: how many {e} / how many {x} are there {y} / how many {x} are {y} / how many {x} does {z} have
    / {z} has how many {x} / what number of {x} does {z} have / how many {x} can you count {y}
    / {y}, how many {x} are there
    / how many {x} has {z} got / how many {x} make up {z}
clause: how many {x} there are {y} / how many {x} {z} has / how many {x} are {y} / how many {x} make up {z}
say: there are {v} {e} / the number of {e} is {v}
terse: {e} / number of {e} / {x} {y} / how many {x} {y}
check: are there {v} {e} / does {z} have {v} {x} / is the number of {e} {v} / has {z} got {v} {x}
unseen: if I count all the {x} {y}, where do I end
"""),
    relation("sides", "shape", SIDES, """
noun: the number of sides of {e} / the number of sides that {e} has / the number of corners of {e}
ask: how many sides does {e} have / how many sides has {e} / how many sides are there in {e}
    / how many corners does {e} have
    / {e} has how many sides / how many angles does {e} have / how many edges does {e} have
clause: how many sides {e} has / how many corners {e} has
say: {e} has {v} sides / the number of sides of {e} is {v}
then: how many sides does it have / how many corners does it have / how many angles does it have
terse: {b} sides / sides of {b} / {b} number of sides / how many sides {b}
check: does {e} have {v} sides / has {e} got {v} sides / does {e} have {v} corners
back: which shape has {v} sides / what do you call a shape with {v} sides / what shape has {v} corners
    / what is a shape with {v} sides called
back_noun: the shape with {v} sides / the name of a shape with {v} corners
back_say: a shape with {v} sides is {e}
unseen: how many lines do I draw for {e}
unseen_back: {v} lines closed to a ring make which shape
"""),
    relation("days", "month", MONTHS, """
noun: the number of days in {e} / the number of days of {e} / the length of {e} in days
ask: how many days does {e} have / how many days are there in {e} / how many days has {e} / how many days are in {e}
    / {e} has how many days / how long is {e} in days / how many days long is {e}
clause: how many days {e} has / how many days there are in {e} / how many days {e} has got
say: {e} has {v} days / the number of days in {e} is {v}
then: how many days does it have / how long is it in days
terse: {e} days / days in {e} / how many days {e} / number of days {e}
check: does {e} have {v} days / are there {v} days in {e} / has {e} got {v} days
unseen: on which number does the calendar page of {e} end
"""),
    relation("month", "month", dict(zip(_months, ORDER, strict=True)), """
noun: the place of {e} in the year / the place of {e} among the months
ask: which month of the year is {e} / what number month is {e} / what place does {e} have among the months
    / where does {e} come in the year
clause: which month of the year {e} is / where {e} comes in the year
say: {e} is the {v} month of the year / in the order of the months, {e} comes {v}
then: which month of the year is it / where does it come in the year
terse: {e} month number / month number of {e}
check: is {e} the {v} month of the year / is {e} the {v} month / does {e} come {v} in the year
back: which month is the {v} / what is the {v} month of the year / which is the {v} month / what is the {v} month
    / which month comes {v} in the year / which month is the {v} of the year / what month comes {v}
back_noun: the {v} month of the year / the {v} month
back_say: the {v} month of the year is {e}
unseen: as which month do we live through {e}
unseen_back: which month do I reach as the {v} of twelve
"""),
)

DAY_RELATIONS = tuple(
    relation(f"{what} {way}", "time", facts, f"""
noun: the {what} {way} {{e}} / the {what} that comes {way} {{e}} / the name of the {what} {way} {{e}}
ask: which {what} comes {way} {{e}} / what {what} comes {way} {{e}} / which {what} is {way} {{e}}
    / what is the {what} right {way} {{e}} / {way} {{e}} comes which {what} / what {what} is {way} {{e}}
clause: which {what} comes {way} {{e}} / what {what} is {way} {{e}} / which {what} is right {way} {{e}}
say: the {what} {way} {{e}} is {{v}} / {way} {{e}} comes {{v}}
then: which {what} comes {way} it / what {what} comes {way} that
terse: {what} {way} {{e}} / {{e}} {what} {way} / {way} {{e}}
check: is {{v}} the {what} {way} {{e}} / does {{v}} come right {way} {{e}} / does the {what} {{v}} come {way} {{e}}
unseen: on the calendar, which {what} stands next to {{e}}, {way} it
""") for what, row in (("day", DAYS), ("month", _months), ("season", SEASONS))
    for way, facts in (("after", _next(row, 1)), ("before", _next(row, -1))))

THINGS = (
    relation("color", "thing", COLORS, """
noun: the color of {e} / the usual color of {e} / the colour of {e} / the normal color of {e} / the usual colour of {e}
ask: what color is {e} / which color is {e} / what colour is {e} / which color does {e} have
    / which colour does {e} have
    / what color does {e} have / {e} is what color / what color do you paint {e} / in what color do I draw {e}
    / in which color should I paint {e} / what colour should {e} be / {e} has which color / how is {e} colored
clause: what color {e} is / what colour {e} is / which color {e} has / in what color to paint {e}
say: the color of {e} is {v} / the usual color of {e} is {v} / {e} is {v}
then: what color is it / which color does it have / what colour is it / what color should I paint it
terse: {b} color / color {b} / color of {b} / colour of {b} / {b} colour / {b}: color?
check: is the color of {e} {v} / is {e} {v} / is the colour of {e} {v} / would you paint {e} {v} / is {e} usually {v}
unseen: which pencil do I take to color in {e} / {e} shines in which color
"""),
    relation("mix", "paint", MIXES | EITHER_WAY, """
noun: the mixture of {e} / the color that {e} make together / the color that you get from {e}
ask: what color do {e} make / what do you get if you mix {e} / what color do I get if I mix {e}
    / which color do {e} give
    / what do {e} make when mixed / what colour do {e} make / what comes out if I mix {e} / what color is {e} mixed
clause: what color {e} make / what you get if you mix {e} / which colour {e} give
say: {e} make {v} / if you mix {e} you get {v} / the mixture of {e} is {v}
terse: {e} mixed / mix {e} / {e} = what color / mixing {e}
check: do {e} make {v} / do you get {v} if you mix {e} / is the mixture of {e} {v}
unseen: I stir {e} together on my palette; which color is it now
"""),
    relation("record", "record", RECORDS, """
noun: {e}
ask: which one is {e} / what do you call {e} / do you know what {e} is called / what is the name of {e}
clause: what {e} is / which one is {e} / what {e} is called
say: {e} is {v}
terse: {b} / {b} name / {b}?
check: is {v} {e}
unseen: where the question is about {e}, what is the right answer
"""),
    relation("first", "person", FIRSTS, """
noun: {e}
ask: who was {e} / who became {e} / what is the name of {e} / what was the name of {e}
clause: who {e} was / who was {e}
say: {e} was {v} / the name of {e} is {v}
terse: {b} / {b} name
check: was {v} {e} / is {v} {e}
back: who was {v} / who is {v} / why is {v} famous / what is {v} known for
back_say: {v} was {e}
unseen: which name goes with the title {e}
unseen_back: what did {v} do that we still know the name
""", who="who"),
    relation("origin", "dish", DISHES, """
noun: the country that {e} comes from / the home country of {e} / the country of origin of {e}
ask: where does {e} come from / where is {e} from / which country does {e} come from / from which country is {e}
    / which country is famous for {e} / in which country did people first make {e} / what country is {e} from
    / {e} comes from which country / which country gave us {e}
clause: where {e} comes from / which country {e} comes from / where {e} is from
say: {e} comes from {v} / the home of {e} is {v}
then: where does it come from / which country is it from / where is it from
terse: {b} country / {b} from / origin of {b} / {b} origin
check: does {e} come from {v} / is {e} from {v} / is {v} the home of {e}
back: which dish comes from {v} / what is a famous dish from {v} / what do people like to eat in {v}
back_noun: a dish from {v} / a famous dish from {v}
back_say: {e} comes from {v}
unseen: whose kitchen gave the world {e}
unseen_back: sitting down in a restaurant in {v}, what should I order
"""),
    relation("made", "stuff", MADE_FROM, """
noun: the main thing that {e} is made from / the raw material of {e}
ask: what is {e} made from / what is {e} made of / from what is {e} made / what do you need to make {e}
    / what do people make {e} from / {e} is made from what / out of what is {e} made / what does {e} consist of
clause: what {e} is made from / what {e} is made of / what you need to make {e}
say: {e} is made from {v} / people make {e} from {v}
then: what is it made from / what is it made of / what do I need to make it
terse: {b} made from / {b} made of / {b} ingredient / what is {b} made of
check: is {e} made from {v} / is {e} made of {v} / do you need {v} to make {e}
back: what is made from {v} / what do people make from {v} / what can I make from {v}
back_noun: a thing that is made from {v}
back_say: {e} is made from {v}
unseen: at the beginning of {e}, what is there to work with
unseen_back: what becomes of {v} in the end
"""),
    relation("tool", "sport", SPORTS, """
noun: the thing you hit the ball with in {e} / the equipment for {e}
ask: what do you play {e} with / what do you need to play {e} / what does a player hold in {e}
    / with what do people play {e} / which piece of equipment do you need for {e} / what do I need for {e}
clause: what you play {e} with / what you need for {e} / what a player holds in {e}
say: you play {e} with {v} / people play {e} with {v}
then: what do I need for it / what do you play it with
terse: {b} equipment / {b} played with
check: do you play {e} with {v} / do you need {v} for {e} / do people play {e} with {v}
unseen: what should I pack for a game of {e}
"""),
    relation("instrument", "thing", INSTRUMENTS, """
noun: the kind of instrument that {e} is / the family of {e} among the instruments
ask: what kind of instrument is {e} / what type of instrument is {e} / what sort of musical instrument is {e}
    / to which family of instruments does {e} belong / {e} is what kind of instrument
clause: what kind of instrument {e} is / what sort of instrument {e} is
say: {e} is a {v} / {e} is a kind of {v}
then: what kind of instrument is it / which family of instruments does it belong to
terse: {b} kind of instrument / {b} instrument family / {b} instrument type
check: is {e} a {v} / does {e} count as a {v}
some: name a {v}. / which instrument is a {v}? / tell me one {v}. / give me an example of a {v}.
unseen: where in an orchestra guide would I read about {e}
""", near=lambda entity, value: entity == "the piano"),
    relation("kind", "thing", KINDS, """
noun: the kind of thing that {e} is
ask: what is {e} / what kind of thing is {e} / what sort of thing is {e} / {e} is a kind of what
    / {e} is an example of what
clause: what {e} is / what kind of thing {e} is / what sort of thing {e} is
say: {e} is a {v}
then: what is it / what kind of thing is it
terse: {b} kind / what kind of thing {b} / {b} is a
check: is {e} a {v} / does {e} count as a {v}
some: name a {v}. / give me an example of a {v}. / tell me a {v}. / what is an example of a {v}?
unseen: under which heading would {e} stand in a book for children
"""),
    relation("grows", "plants", GROWS, """
noun: the place where {e} grow
ask: where do {e} grow / where can I pick {e} / on what do {e} grow, or do they grow in the ground / {e} grow where
clause: where {e} grow / where I can pick {e}
say: {e} grow {v} / you find {e} {v}
then: where do they grow / where can I pick them
terse: {b} grow where / where {b} grow
check: do {e} grow {v} / can you find {e} {v}
unseen: where should a gardener look for ripe {e}
""", near=lambda entity, value: "trees" in value and entity == "grapes"),
    relation("sense", "body", SENSES, """
noun: the part of the body that we {e} with
ask: what do we {e} with / with what do we {e} / which part of the body do we {e} with / what do people {e} with
    / what do you need to {e} / which part of your body helps you {e}
clause: what we {e} with / which part of the body we {e} with / what you need to {e}
say: we {e} with {v} / people {e} with {v}
terse: body part to {e} / we {e} with
check: do we {e} with {v} / do you need {v} to {e} / do people {e} with {v}
back: what do we do with {v} / what are {v} for / what can we do with {v}
back_noun: the thing we do with {v}
back_say: we {e} with {v}
unseen: without what could nobody {e}
unseen_back: what could we no longer do without {v}
"""),
    relation("work", "person", WORK, """
noun: the work of {e} / the job of {e} / the task of {e}
ask: what does {e} do / what is the job of {e} / what does {e} do all day / what does {e} do at work / {e} does what
    / what do we need {e} for / what does {e} do for a living
clause: what {e} does / what the job of {e} is / what {e} does all day / what {e} does for a living
say: {e} {v} / it is {e} who {v}
then: what does that person do / what is the job of that person
terse: {b} job / {b} work / what {b} do / {b} does what
back: who {v} / which person {v} / what do you call someone who {v} / what is a person called who {v}
    / which job has a person who {v} / what is the word for a person who {v} / somebody who {v} is called what
back_noun: the person who {v} / the word for someone who {v} / the name for a person who {v}
back_say: a person who {v} is {e}
unseen: how does {e} earn money
unseen_back: if I need someone who {v}, for whom do I ask
""", back_who="who"),
    relation("workplace", "person", WORKPLACES, """
noun: the place where {e} works / the workplace of {e}
ask: where does {e} work / where do you find {e} at work / in what place does {e} work / {e} works where
    / where would I meet {e} at work
clause: where {e} works / where to find {e} at work
say: {e} works in {v} / you find {e} in {v} / the workplace of {e} is {v}
then: where does that person work / where can I find that person
terse: {b} workplace / where {b} work / {b} works in
check: does {e} work in {v} / is {v} the place where {e} works
unseen: which building does {e} walk into in the morning
""", near=lambda person, place: place in WORK_FOR_ALL),
)

EVERYDAY = (*WORKS_OF_PEOPLE, *WORDS, *COUNTING_AND_TIME, *DAY_RELATIONS, *THINGS)
