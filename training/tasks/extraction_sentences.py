"""Sentences that tell of a person or of an order: templates with alternatives, in every order of the fields.

Third person and first person, notes without a verb, direct speech, and other people and numbers that are no field.
"""

from __future__ import annotations

from ..alternatives import lines

WORDS = {
    "likes": "likes|loves|enjoys|adores|is fond of|is into|is crazy about|is keen on|really likes|cannot live without",
    "liking": "who <likes> {hobby}|whose hobby is {hobby}|with a love of {hobby}|and a great fan of {hobby}",
    "works": "works as|has a job as|is working as|earns a living as|makes a living as|is employed as|is",
    "lives": "lives in|is living in|comes from|is from|is based in|has a home in|has settled in|now lives in",
    "of": "from|in|living in|based in|who lives in|who comes from",
    "free": "in {his} free time|on weekends|after work|in the evening|on Sundays|outside work|when off duty|most days",
    "yo": "{a_age}-year-old|{a_age} year old",
    "met": "met|talked to|spoke with|interviewed|had lunch with|ran into|sat next to|got a letter from",
    "my": "my|our|the|your|her",
    "kin": "neighbor|cousin|friend|colleague|uncle's friend|classmate|teammate|old friend|new friend|landlord|guest",
    "years": "{age} years old|{age}|{age} years of age|now {age}|aged {age}|already {age}|just {age}",
    "like": "like|love|enjoy|adore|am fond of|am into",
    "rel": "cousin|boss|roommate|best friend|neighbor|colleague|classmate|old teacher",
}

PERSON_WHOLE = lines("""
{name} is <yo> {job}[ <of> {city}|][ <liking>|].
{name}, <yo> {job}[ <of> {city}|], <likes> {hobby}[| very much| most of all].
{name}, {age}, <works> {a_job}[ in {city}|][ and <likes> {hobby}|].
{name}, <years>, [lives in {city} and ||]<works> {a_job}.
[in {city} lives|in {city} there lives|from {city} comes|here comes] {name}, {a_job}[ of {age}|, {age}| aged {age}|].
{name} [lives in|comes from|is from] {city}[, is <years>|] and <works> {a_job}.
{name} <lives> {city}, where {he} <works> {a_job}[. {He} is {age}| at the age of {age}|].
{a_job} [by trade|by profession|by training|for many years], {name}[, {age},|] <lives> {city}[ and <likes> {hobby}|].
{a_job} <of> {city}, {name} is {age}[ years old|].
[at|aged|at the age of] {age}, {name} [still |already |]<works> {a_job}[ in {city}|][ and <likes> {hobby}|].
<my> <kin> {name}[, {age},| ({age})|][ <works> {a_job}| <likes> {hobby}| <lives> {city}].
<my> <kin> is called {name}, [<works> {a_job}|<lives> {city}] and is {age}.
{name} moved [from {place} |]to {city} [last year|in spring|at last|for love|not long ago] [to work as|\
and works as] {a_job}.
{name} ({age}) is {a_job}[ from {city}| in {city}|][, and {he} <likes> {hobby}|].
{name} ({job}[, {city}|][, {age}|]) <likes> {hobby}[ and has {a_pet}|].
[meet|say hello to|let me introduce|this is|I would like you to meet|please welcome|here is] {name}[, {age}|], <my> [\
new |]{job}[ from {city}|].
this is {name}. {He} is {age}[ years old|], [lives in {city}|works as {a_job}] and <likes> {hobby}.
we <met> {name}, <yo> {job} <of> {city}[ with {a_pet}|].
[yesterday|last week|on the train|at a party|on Monday|today] I <met> {name}[, {a_job}[ from {city}|]|, {age}|\
]. {He} <likes> {hobby}.
I <met> <yo> {job} [named|called|by the name of] {name}[ who <lives> {city}|].
there is {a_job} in {city} [called|named|by the name of] {name}[, {age},|] who [has {a_pet}|<likes> {hobby}].
the {job} {name}[ from {city}|] [turned {age}[ yesterday| last week| this year|]|has just turned {age}|is {age}].
{city} is [the home of|home to|where you find|where everybody knows] {name}, {a_job}[ who <likes> {hobby}| of {age}|].
{name} has {a_pet}, <likes> {hobby} and is {age}[ years old|].
[our|the] [new |]{job}[ here|] is {name}[ from {city}|, {age}| ({age}), from {city}].
<free>, {name}[, {a_job},|, {age},| from {city}|] <likes> {hobby}.
when {name} is not [working|at work] as {a_job}[ in {city}|], {he} <likes> {hobby}.
{name}, who is [<years>|<years> and <lives> {city}], <works> {a_job}[ and <likes> {hobby}|].
{name}, who <works> {a_job}[ in {city}|], is [now |]{age}[ years old|].
although {he} is [only |already |]{age}, {name} <works> {a_job}[ in {city}|].
because {he} <likes> {hobby}, {name}, {a_job}[ of {age}|], [moved to|lives in|stays in] {city}.
"I am {a_job}[ in {city}|][ and I <like> {hobby}|]," [says|said|explains|writes] {name}[, {age}| ({age})| from {city}|].
"[Hi|Hello|Good morning], I'm {name}[ from {city}|]," {he} said. "I'm {age} and I work as {a_job}."
asked about {his} life, {name} says: "I am {age}[, I live in {city}|] and [I <like> {hobby}|I work as {a_job}]."
if you need {a_job}[ in {city}|], [call|ask|ask for|write to|try] {name}[, {age}|]. {He} <likes> {hobby}.
{name} used to be {a_trade}, but now {he} is {a_job}[ in {city}|][. {He} is {age}|].
after {count} years in {place}, {name}[, {age},|] now lives in {city}[ and <works> {a_job}|].
unlike {his} <rel> {other}, who is {a_trade}, {name}[ ({age})|] <works> {a_job}[ in {city}|].
{name} and {his} <rel> {other} are very different: {name} <likes> {hobby}[, is {age}|] and works as {a_job}.
{his} <rel> lives in {place}, but {name}[, {a_job},|] <lives> {city}[ and is {age}|].
[yes, |you see, |of all things, ]{hobby} is what {name}[, {age},|] [loves most|likes best|does for fun|lives for][\
; {he} is {a_job} in {city}|; {he} works as {a_job}|].
name[: | is |=]{name}[,|;|.] age[: | is |=]{age}[,|;|.] job[: | is |=]{job}[[,|;|.] city[: | is |=]{city}|].
{name}[, | - | / |; ]{age}[, | - | / |; ]{job}[[, | - | / |; ]{city}|][[, | - | / |; ]{hobby}|]
[the|our|your] {job}[ in |, | - ]{city}[: | - ]{name}[ ({age})|, {age}|]
Name: {name}⏎Age: {age}⏎[Job|Occupation]: {job}[⏎[City|Town]: {city}|][⏎[Hobby|Hobbies|Likes]: {hobby}|]
{city}[ - |: ]{name}[, {age},|] [has been named|was chosen as|has become] [{job} of the year|the best {job} in town].
did you know that {name}[, our {job},| from {city}|, {age},] <likes> {hobby}?
everyone in {city} knows {name}, the {job}[ who is {age}| with {a_pet}| who <likes> {hobby}|].
{name} is {age}. {He} <works> {a_job}[ and <lives> {city}|. {He} <lives> {city}].
{name} works in {city}. {He} is {a_job}[, {age} years old|][, and <likes> {hobby}|].
born in {place}, {name} <works> {a_job} in {city} now[ and is {age}|].
it was {name}, <yo> {job}[ from {city}|], who [called|won|found the key|opened the door|asked for help].
{name} - {age}, {job}[, {city}|][, <likes> {hobby}|]
the name of the [new |]{job} [from|in] {city} is {name}[, and {he} is {age}|].
""", **WORDS)

PERSON_PARTS = {
    "age": lines("""
        [{name}|{He}] is {age}[ years old|].
        [{name}|{He}] [turned|has just turned] {age}[ in spring| last week| in May|].
        {His} age is {age}.
        [{name}|{He}] will not say it, but {he} is {age}.
        [at {age}, {he} is still full of plans|at {age}, {he} feels young].
        """),
    "job": lines("""
        [{name}|{He}] <works> {a_job}.
        by profession [{name}|{he}] is {a_job}.
        {His} job? {He} is {a_job}.
        for a living, {he} works as {a_job}.
        {He} wanted to be {a_trade}, but became {a_job}.
        the job of {name} is {job}.
        """, **WORDS),
    "city": lines("""
        the home of {name} is {city}.
        [{name}|{He}] <lives> {city}.
        home for {him} is {city}.
        {He} left {place} and lives in {city} now.
        you can visit {him} in {city}.
        """, **WORDS),
    "hobby": lines("""
        <free> [{name}|{he}] <likes> {hobby}.
        [the favorite hobby of {name}|{His} favorite hobby|{His} hobby|what {he} likes best] is {hobby}.
        [{name}|{He}] also <likes> {hobby}.
        {His} great love is {hobby}.
        there is nothing {he} likes more than {hobby}.
        """, **WORDS),
    "pet": lines("""
        [{name}|{He}] [has|owns|keeps|has got|lives with|takes care of] {a_pet}.
        at home {a_pet} waits for [{name}|{him}].
        [the pet of {name}|{His} pet] is {a_pet}.
        """),
}

ME = {"i am": "I am|I'm", "like": "like|love|enjoy|am fond of|am into|am crazy about|really like",
      "work": "work as|am|earn my living as|have a job as|am working as",
      "live": "live in|come from|am from|am based in",
      "hi": "Hi|Hello|Hey|Good morning|Hi there|Hello everyone|Good evening"}

PERSON_ME_WHOLE = lines("""
[<hi>, |][my name is|I'm|I am|the name is|they call me|people call me] {name}[,| and] [I am|I'm] {age}[ years old|].
[<hi>! |]<i am> {name}, {a_job}[ from {city}| in {city}|].
[<hi>, |]<i am> {name} from {city}[ and I <work> {a_job}|][ and I <like> {hobby}|].
[<hi>! |]<i am> {name}[, {age},|] and I <work> {a_job}[ in {city}|].
[<hi>! |]<i am> {a_age}-year-old {job}[ from {city}|] and my name is {name}.
I <live> {city}, <work> {a_job} and <like> {hobby}. My name is {name}.
[at {age}|in {city}], I <work> {a_job}. - {name}
I <like> {hobby}[ and I <work> {a_job}|]. [Yours|Best wishes|Greetings|See you|Kind regards], {name}[, {city}|]
{name} here, {age}, {job}[ from {city}|][, I <like> {hobby}|].
{name} [here|speaking]. I <work> {a_job}[ in {city}|][ and I am {age}|].
call me {name}. I am {age}, I <live> {city} and I <like> {hobby}.
""", **ME)

PERSON_ME_PARTS = {
    "age": lines("I am {age}[ years old|].\nI have just turned {age}.\nMy age is {age}."),
    "job": lines("I <work> {a_job}.\nMy job is {job}.\nI used to be {a_trade}, but now I am {a_job}.", **ME),
    "city": lines("I <live> {city}.\nMy home is {city}.\nI left {place} and live in {city} now.", **ME),
    "hobby": lines("I <like> {hobby}.\nMy hobby is {hobby}.\n[after work|on weekends] I <like> {hobby}.", **ME),
    "pet": lines("I have {a_pet}.\nMy pet is {a_pet}.\nMy {pet} says hello.\nI live with {a_pet}."),
}

SHOP = {
    "wants": "ordered|has ordered|bought|wants|needs|wants to buy|would like|would like to order|asked for|"
             "has asked for|placed an order for|is buying|took|is ordering|purchased|requested|is asking for",
    "each": "each|apiece|a piece|per piece|per unit|for each one|for each",
    "send": "send|deliver|ship|bring|reserve|mail|hand over|prepare",
    "send to": "send|deliver|ship|bring|mail|post",
    "at": "[at|for] {money} <each>|[at|for] {money} <each>|for {money}[ in total| altogether|]",
    "cost": "cost|are|come to|sell for|go for",
    "who": "a customer called|our customer|our client|a client named|our old friend|the buyer",
    "when": "today|this morning|on the phone|by email|online|in our shop|again",
}

ORDER_WHOLE = lines("""
{customer} <wants> {quantity} {item}[ <at>|].
{customer} <wants> {quantity} {item}[ <when>|][, {money} <each>| (<at>)|].
[<when>|this time|right now], {customer} <wants> {quantity} {item}[ <at>|].
<who> {customer} <wants> {quantity} {item}[ <at>|].
[order from|order by|order of|new order from|new order:|another order from] {customer}[:|,| -] {quantity} {item}[\
, {money} <each>|].
[please|do not forget to|we have to|I forgot to] [<send> {quantity} {item} for|\
<send to> {quantity} {item} to] {customer}.
[could|can|would] you[ please|] [<send> {quantity} {item} for|<send to> {quantity} {item} to] {customer}?
<send to> {customer} {quantity} {item}[ <at>|][ by {day}|].
{quantity} {item} for {customer}[, please|]. [Each one costs|Each costs|The price of each is|One is] {money}.
{quantity} {item} [for|to] {customer}[, {money} <each>|][, delivery on {day}|]
on {day} we [deliver|send|bring|ship] {quantity} {item} to {customer}[ <at>|].
{customer} needs {quantity} {item} by {day}[ and pays {money} <each>|].
[a new|another|a big|a small] order [came in|has arrived|is here]: {customer} <wants> {quantity} {item}[ <at>|].
Customer: {customer}[. |, |; |⏎]Item: {item}[. |, |; |⏎]Quantity: {quantity}[. |, |; |⏎]Price: {money}[.|]
{customer} <wants> {quantity} {item}. [The price [was|is] {money}[ <each>|]|Each one costs {money}|One costs {money}|\
We charge {money} <each>].
{customer} asked for {item}, {quantity} [in all|of them|in total|pieces][, <at>|].
we [sold|have sold|shipped|sent|delivered] {quantity} {item} to {customer}[ <at>|][ on {day}|].
<at>, {quantity} {item} [go|went|were sold|were sent|are going] to {customer}.
<at>, we [sold|send|brought] {customer} {quantity} {item}.
the {item} <cost> {money} <each>; {customer} <wants> {quantity}[ of them|].
the {item} <cost> {money} <each>, and {customer} <wants> {quantity}[ of them|].
[our|these|those|the new] {item} <cost> {money} <each>. {customer} <wants> {quantity}[ of them|].
{quantity} {item} [were|have been] [ordered|bought|requested|paid for] by {customer}[ <when>|][ <at>|].
{quantity} {item}, {money} <each>, [ordered by|sold to|customer:|bought by|for] {customer}[.|]
[an order of|an order for|the order for] {quantity} {item}[ <at>|] [came from|came in from|was placed by|was made by|\
is from] {customer}.
it was {customer} who <wants> {quantity} {item}[ <at>|].
[for the party|for the office|for a birthday|for the school|for the new house], {customer} <wants> {quantity} {item}[\
, {money} <each>|].
"I [want|need|would like|will take|would like to order|am looking for] {quantity} {item}[, please|]," [said|says|\
wrote|writes] {customer}. [Each one costs|One costs|The price of each is] {money}.
"{quantity} {item}, please!" [said|says|wrote|called] {customer}[, who paid {money} <each>|].
{customer}: {quantity} {item}[, {money} <each>| <at>|][, {day}|]
{customer} - {item} - {quantity} - {money}
[item: |ordered: |wanted: |sold: ]{item}[ x | x|: |, ]{quantity}, {money}[ <each>|], {customer}
{quantity} x {item}[ at|,] {money}[ <each>|], [customer|buyer|for]: {customer}
[hi|hello|dear team|good morning], I [want|need|would like] [to order |to buy |]{quantity} {item}[ <at>|]. [Thanks|\
Thank you|Best wishes|Regards], {customer}
[hi|hello], this is {customer}. [I need|I want|I would like|Please send me|Can I get] {quantity} {item}[ <at>|].
my name is {customer} and I [want|need|would like] {quantity} {item}[ <at>|].
first {customer} wanted {count} {ware}, but then {he} ordered {quantity} {item} <at>.
{customer}, who bought {count} {ware} last year, now <wants> {quantity} {item}[ <at>|].
we have no {ware}, so {customer} took {quantity} {item}[ <at>|].
when {customer} [called|came in|wrote to us], {he} asked for {quantity} {item}[ <at>|].
{customer} [called|wrote] [today|again|this morning|yesterday]. {He} <wants> {quantity} {item}[ <at>|].
{customer} [paid|pays|will pay|has paid] {money} <each> for {quantity} {item}[ <when>|].
{customer} [paid|pays|will pay] {money} <each> and [got|gets|takes|receives] {quantity} {item}.
[our|the] customer [today |]is {customer}; {he} <wants> {quantity} {item}[ and pays {money} <each>|].
there is an order [from|by] {customer}: {quantity} {item}, {money} <each>.
{customer} in {place} <wants> {quantity} {item}[ <at>|][ by {day}|].
to {customer} we sold {quantity} {item}[ <at>|].
[reminder|note|to do|urgent]: {quantity} {item} for {customer}[, {money} <each>|][, {day}|]
{customer} chose the {item}, {money} <each>, and [took|ordered|wants|needs] {quantity}.
""", **SHOP)

ORDER_PARTS = {
    "price": lines("""
        [each one|each|one|each of them] [costs|is] {money}.
        the price is {money} <each>.
        we charge {money} <each>.
        """, **SHOP),
    "day": lines("""
        [delivery is|delivery will be|we deliver|it is due|everything is due] on {day}.
        the order has to [arrive|be there|leave] on {day}.
        [please deliver|we need it|it is needed] by {day}.
        """),
}

PERSON_BRIEF = lines("""
{name} is {a_job}[ in {city}| from {city}|]
{name} is {age}[ and <likes> {hobby}| and works as {a_job}|]
{name}[, {age},| ({age})] <works> {a_job}[ in {city}|]
{name}[, {age},| ({age})] <lives> {city}
{name} <lives> {city} and <likes> {hobby}
{name} <likes> {hobby}
{name} ({job}, {age})
""", **WORDS)

ORDER_BRIEF = lines("""
{customer} <wants> {quantity} {item}[ <at>|]
{quantity} {item} for {customer}
{customer}: {quantity} {item}[, {money} <each>|]
{customer} paid {money} <each> for {quantity} {item}
""", **SHOP)
"""Clauses of one thing each, for sentences that tell of several things in the same manner."""
