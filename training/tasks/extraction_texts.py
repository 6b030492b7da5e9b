"""Short texts of a dozen kinds that say some fields of something: people, orders, flights, matches and others.

A slot is a field, or `a_` and a field for the word with its article. Slots that are no field are noise.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from ..alternatives import lines
from .extraction_sentences import (
    ORDER_PARTS,
    ORDER_WHOLE,
    PERSON_ME_PARTS,
    PERSON_ME_WHOLE,
    PERSON_PARTS,
    PERSON_WHOLE,
)
from .extraction_values import (
    appointment,
    book,
    booking,
    contact,
    flat,
    flight,
    match,
    order,
    parcel,
    person,
    product,
    recipe,
    weather,
)
from .json_text import Record


class Domain(NamedTuple):
    """fields: the keys that a field goes by, the usual one first, then its JSON type. whole: the sentences that open.

    parts: sentences that say one more field. unseen: openings that only the evaluation uses. noise: sentences that say
    no field, though they may name somebody or some number. usual: so many fields are given where none are named.
    me: the openings and the parts of texts in the first person.
    """

    title: str
    fields: dict[str, tuple[str, ...]]
    values: Callable[[Random], tuple[Record, Record]]
    whole: tuple[str, ...]
    unseen: tuple[str, ...]
    parts: dict[str, tuple[str, ...]]
    noise: tuple[str, ...]
    usual: int = 5
    me: tuple[tuple[str, ...], dict[str, tuple[str, ...]]] = ((), {})


def _fields(text: str) -> dict[str, tuple[str, ...]]:
    """`age years:integer, city` to a dict of the fields."""
    out: dict[str, tuple[str, ...]] = {}
    for row in text.split(", "):
        names, _, kind = row.partition(":")
        out[names.split()[0]] = (*names.split(), kind or "string")
    return out


PERSON = Domain(
    "Person", _fields("name person_name, age years_old:integer, job occupation profession, city home_city town, "
                      "hobby likes, pet"), person,
    PERSON_WHOLE,
    ("If you ever visit {city}, say hello to {name}, the {age}-year-old {job} who never stops talking about {hobby}.",
     "Nothing but {hobby} keeps {name} busy after a long day as {a_job} in {city}; not bad at {age}.",
     "After {age} years of life, {name} still works as {a_job} and calls {city} home."),
    PERSON_PARTS,
    ("It was a sunny day.", "The sister of {name} lives in {place}.", "{other}, a friend, is {count} years old.",
     "{name} has worked there for {count} years.", "Everybody likes {name}.", "The train to {place} was late.",
     "{other} is {a_trade}.",
     "The house has {count} rooms.", "It was a nice talk.", "The weather in {place} was bad."),
    me=(PERSON_ME_WHOLE, PERSON_ME_PARTS))

ORDER = Domain(
    "Order", _fields("customer buyer name, item product article, quantity amount count:integer, "
                     "price cost:number, currency, day delivery_day"), order,
    ORDER_WHOLE,
    ("The buyer's name is {customer}; we have to pack {quantity} {item} and charge {money} for each.",
     "{customer} phoned: could the shop put {quantity} {item} aside until {day}?",
     "At {money} apiece, {customer} took {quantity} {item}."),
    ORDER_PARTS,
    ("Last time it was {count} pieces.", "The order was taken by {other}.", "The customer was very friendly.",
     "Our shop in {place} is closed.", "This is order number {long}."))

APPOINTMENT = Domain(
    "Appointment", _fields("who person with name, day weekday, time start_time, place location, topic subject"),
    appointment,
    ("Meet {who} on {day} at {time} in the {place}.", "I have an appointment with {who} on {day} at {time}.",
     "{who} and I will talk about {topic} on {day} at {time}.",
     "On {day} at {time} there is a meeting with {who} in the {place}.",
     "The meeting with {who} about {topic} is on {day} in the {place}.", "Reminder: {who}, {day}, {time}, {place}.",
     "Let us see {who} at {time} on {day}.", "{who} waits for you in the {place} at {time}.",
     "Please write down: {day}, {time}, {place}, meeting with {who} about {topic}.",
     "Could you meet {who} in the {place} on {day}? The topic is {topic}.",
     "With: {who}. Day: {day}. Time: {time}. Place: {place}.",
     "At {time} on {day} I will be in the {place} with {who}.",
     *lines("""
        [you have|there is|do not forget] [a meeting|a talk|an appointment|a date] with {who} [on {day} at {time}|\
            at {time} on {day}][ in the {place}|].
        {who} [will be|is|waits] in the {place} on {day}[ at {time}|][ to talk about {topic}|].
        [on {day}|this {day}], {who} [wants to|will|would like to] talk [to you|with us] about {topic}[, {time}|]. [\
            We meet in|The place is] the {place}.
        [hi|hello], this is {who}. [Can|Could] we meet [on {day} at {time}|at {time} on {day}][ in the {place}|]?
        "[See you|Let us meet] on {day} at {time}," [says|wrote|said] {who}[. The topic is {topic}|].
        {topic}[: | - ]{day}, {time}, {place}, with {who}
        {day} {time} - {who} - {place}[ - {topic}|]
        the {place}, {day}, {time}: {who} [wants to discuss|speaks about] {topic}.
        not on {otherday}, but on {day} at {time} we meet {who}[ in the {place}|].
        {who} has moved our meeting[ about {topic}|] from {otherday} to {day}, {time}.
        I [am seeing|see|will see|meet] {who} [at {time} on {day}|on {day} at {time}][ about {topic}|].
        the meeting about {topic} starts at {time} on {day}; {who} will be there.
        """)),
    ("{who} can only make it on {day}, so be in the {place} by {time}; you will discuss {topic}.",
     "Keep {day} free! At {time} {who} drops by, and you will talk about {topic}.",
     "The {place} is reserved for you and {who}: {time}, {day}."),
    {"time": ("It begins at {time}.", "The time is {time}."), "place": ("We meet in the {place}.",
     "The place is the {place}."),
     "topic": ("We will talk about {topic}.", "The topic is {topic}.")},
    ("{other} cannot come.", "Please be on time.", "The last meeting took {count} minutes.",
     "Bring something to write."))

PRODUCT = Domain(
    "Product", _fields("name product product_name, color colour, price cost:number, currency, material, "
                       "in_stock available:boolean"), product,
    ("The {name} is made of {material} and costs {money}.",
     "{name}: {color}, {material}, {money}.",
     "You can buy the {name} in {color} for {money}.", "The {color} {name} {in_stock}.",
     "Our {name} comes in {color} and costs {money}. It {in_stock}.",
     "For {money} you get the {name}.",
     "New in our shop: the {name}, made of {material}. It {in_stock}.",
     "The price of the {name} is {money}.",
     "The {name}, {color} and made of {material}, costs {money}.", "We also have the {name} in {color}.",
     "Product: {name}. Color: {color}. Price: {money}.",
     *lines("""
        [the|our|this] {name} [costs|sells for|is now|is only|comes for] {money}[ and {in_stock}|].
        [the|our|this] {color} {name} [costs|is|sells for] {money}.
        [the|our] {name}, [made of|all] {material}, [costs {money}|{in_stock}].
        {money} [buys you|is the price of|gets you] the {name}[ in {color}|].
        [I bought|we bought|she ordered|I want] the {name} in {color} for {money}.
        {name}, {color}, {money}
        {name} - {material} - {color} - {money}
        {name} ({color}, {material}): {money}
        Name: {name}[, |; |⏎]Color: {color}[, |; |⏎]Material: {material}[, |; |⏎]Price: {money}
        made of {material} and [painted|dyed|all] {color}, the {name} [costs {money}|{in_stock}].
        the {name} used to cost {count} euros; now it is {money}.
        if you like {color}, take the {name}. It {in_stock}[ and costs {money}|].
        the {name} is {color} and [made of|of] {material}.
        """)),
    ("Looking for something {color}? The {name} is yours for {money}.",
     "{money} is what people pay for the {name}, which is all {material}.",
     "Nobody makes anything out of {material} like the {name}; it {in_stock} and is {color}."),
    {"color": ("The color is {color}.", "It is {color}."), "material": ("It is made of {material}.",
     "The material is {material}."),
     "in_stock": ("It {in_stock}.", "The {name} {in_stock}."), "price": ("It costs {money}.",
     "The price is {money}.")},
    ("Shipping takes {count} days.", "Customers love it.", "It was designed by {other}.", "The old one was too heavy."))

FLIGHT = Domain(
    "Flight", _fields("number flight_number flight, from origin departure_city, to destination arrival_city, date, "
                      "time departure_time, gate"), flight,
    ("Flight {number} goes from {from} to {to} on {date}.", "{number} leaves {from} at {time} for {to}.",
     "On {date} you fly from {from} to {to} with flight {number}.",
     "Your flight {number} to {to} leaves {from} on {date} at {time}.",
     "Flight {number} to {to} leaves from gate {gate}.",
     "From {from} to {to}: flight {number}, {date}, {time}, gate {gate}.",
     "The plane to {to} takes off in {from} at {time}. The flight number is {number}.",
     "Passengers to {to}: flight {number} is ready at gate {gate}.",
     "We booked flight {number} for you, {from} to {to}, {date}.",
     "Flight: {number}. From: {from}. To: {to}. Date: {date}.", "To get to {to} on {date}, take {number} from {from}.",
     "At {time} flight {number} from {from} to {to} takes off.",
     *lines("""
        [please note:|dear passengers,|attention:] flight {number} [from {from} |]to {to} leaves at {time}[\
             from gate {gate}|].
        [I|we] fly from {from} to {to} on {date}[ at {time}|][ with {number}|].
        [my|our|your|her] flight from {from} to {to} is {number}[, {date}|][, gate {gate}|].
        {number}: {from} to {to}[, {date}|][, {time}|][, gate {gate}|]
        {from} - {to}, {number}, {date}
        {date}, {time}: {number} from {from} to {to}
        the {time} flight to {to}, {number}, [leaves|starts] from {from}[, gate {gate}|].
        [my sister|{other}|our boss] takes {number} from {from} to {to} on {date}.
        [leaving|starting from] {from} at {time}, flight {number} goes to {to}.
        not from {place}, but from {from} flight {number} takes you to {to}.
        {to} is the destination of flight {number}, which leaves {from} on {date}.
        there is a flight to {to} on {date}: {number} from {from}[ at {time}|].
        flight {number} leaves gate {gate} at {time}[ for {to}|].
        """)),
    ("Boarding for {to} starts soon at gate {gate}; {number} comes from {from}.",
     "{from} is where {number} starts on {date}, and {to} is where it lands.",
     "Going to {to}? Then be in {from} on {date}: {number} departs at {time}."),
    {"date": ("The date is {date}.", "You fly on {date}."), "time": ("It leaves at {time}.", "Take-off is at {time}."),
     "gate": ("Please go to gate {gate}.", "The gate is {gate}.")},
    ("The flight takes {count} minutes.", "You can bring one bag.", "The pilot is {other}.",
     "The next plane goes to {place}.",
     "Have a nice trip!"))

CONTACT = Domain(
    "Contact", _fields("name full_name contact_name, email mail email_address, phone phone_number telephone, "
                       "company employer, city"), contact,
    ("You can reach {name} at {email} or {phone}.", "{name} works for {company}. The email is {email}.",
     "Write to {name} ({email}).", "Call {name} at {phone}.", "{name}, {company}, {city}, phone {phone}, email {email}",
     "The phone number of {name} is {phone}, the email is {email}.",
     "My new colleague at {company} is {name}, {email}.",
     "Please send the letter to {name} in {city} and a copy to {email}.",
     "{name} from {company} called. The number is {phone}.",
     "Name: {name}\nEmail: {email}\nPhone: {phone}", "For questions ask {name} of {company}: {email}, {phone}.",
     "{name} has moved to {city}. The new phone number is {phone}.",
     *lines("""
        [hi|hello], I'm {name} from {company}. [My email is|Write to me at] {email}[ or call {phone}|].
        [this is|my name is] {name}, {company}. You can call me at {phone}[ or write to {email}|].
        {name} of {company} [lives in {city} and |]can be reached at {email}.
        {name}, {phone}, {email}
        {name} - {company} - {email} - {phone}
        {name} ({company}): {phone}[, {email}|]
        in {city}, {name} works for {company}[ ({email})|].
        [ask|contact|write to|email] {name} at {email}[; the phone number is {phone}|].
        {email} is the address of {name}[ at {company}|].
        {phone} is the number of {name}[ in {city}|].
        [kind regards|best wishes|yours|thanks], {name}⏎{company}, {city}⏎{phone}⏎{email}
        the new manager of {company} is {name}; [her|the] office is in {city} and [her|the] phone number is {phone}.
        when you are in {city}, call {name} at {phone}.
        """)),
    ("Got a question? {name} answers mails sent to {email} and picks up under {phone}.",
     "{company} has hired {name}, so use {email} from now on.", "Dial {phone} and ask for {name}, or try {email}."),
    {"email": ("The email is {email}.", "Mails go to {email}."), "phone": ("The phone number is {phone}.",
     "The number is {phone}."),
     "company": ("{name} works for {company}.", "The company is called {company}."), "city": ("{name} lives in {city}.",
     "The office is in {city}.")},
    ("The office opens at nine.", "Please do not call before ten.", "{other} does not work there any more.",
     "We have known each other for {count} years."))

WEATHER = Domain(
    "Weather", _fields("city place location, day, condition weather sky, temperature degrees:integer, "
                       "wind wind_speed:integer"), weather,
    ("In {city} it will be {condition} on {day}, {temperature} degrees.",
     "{day} in {city}: {condition}, {temperature} degrees.",
     "It is {condition} in {city} with {temperature} degrees.", "The weather in {city} on {day} is {condition}.",
     "On {day} people in {city} can expect {temperature} degrees and {condition} weather.",
     "{city} will be {condition} on {day}.",
     "The temperature in {city} is {temperature} degrees. It is {condition}.",
     "{city}, {day}: {temperature} degrees, wind {wind} kilometers an hour.",
     "Weather report for {city}: {condition}, {temperature} degrees, wind of {wind} kilometers an hour.",
     "A {condition} {day} is coming to {city}.",
     *lines("""
        [on {day}|this {day}], {city} [gets|has|will have|can look forward to] {condition} weather[\
             and {temperature} degrees|].
        {city} [had|has|reports] {temperature} degrees on {day}[ and a {condition} sky|].
        {city}: {condition}, {temperature} degrees[, wind {wind}|]
        {city}, {day}, {condition}, {temperature} degrees
        {day}: {temperature} degrees and {condition} in {city}
        [expect|look out for] {condition} weather in {city} on {day}[, with {temperature} degrees|].
        while {place} is warm, {city} is {condition} with {temperature} degrees[ on {day}|].
        with {temperature} degrees, {day} [will be|is] {condition} in {city}.
        a wind of {wind} kilometers an hour blows in {city} on {day}[; it is {condition}|].
        the {day} forecast for {city}: {condition}[, {temperature} degrees|][, wind {wind} kilometers an hour|].
        I am in {city}. It is {condition} and we have {temperature} degrees.
        """)),
    ("Take care in {city} on {day}: {condition}, with the thermometer at {temperature} degrees.",
     "{temperature} degrees is what {city} gets on {day}, and it stays {condition}.",
     "How is {city}? It stays {condition} and the wind blows at {wind} kilometers an hour."),
    {"temperature": ("It will be {temperature} degrees.", "The temperature is {temperature} degrees."),
     "wind": ("The wind blows at {wind} kilometers an hour.", "There is a wind of {wind} kilometers an hour.")},
    ("Last week was colder.", "In {place} it is different.", "{other} reports.", "Do not forget your coat."))

MATCH = Domain(
    "Match", _fields("home home_team, away away_team guest_team, home_score home_goals:integer, "
                     "away_score away_goals:integer, day, scorer"), match,
    ("{home} {home_result} {home_score}-{away_score} at home against {away}.",
     "{home} - {away} {home_score}:{away_score}",
     "{away} {away_result} {away_score}-{home_score} away at {home}.",
     "The match {home} against {away} ended {home_score}:{away_score}.",
     "On {day} {home} received {away}. The final score was {home_score}-{away_score}.",
     "{home} played against {away} on {day} and {home_result} {home_score}-{away_score}.",
     "At home {home} {home_result} {home_score}-{away_score} against {away} on {day}.",
     "Result: {home} {home_score}, {away} {away_score}.",
     "{away} traveled to {home} on {day} and {away_result} {away_score}:{home_score}.",
     "{home} will play at home against {away} on {day}.",
     *lines("""
        {home} against {away}: {home_score}-{away_score}[ on {day}|]
        {home} {home_score}, {away} {away_score}[ ({day})|]
        [on {day}|this {day}] {away} played at {home}; [it ended|the score was] {home_score}:{away_score}.
        the home team {home} {home_result} {home_score}:{away_score} against {away}[ on {day}|].
        in front of its own fans, {home} {home_result} {home_score}-{away_score} against {away}.
        {home} scored {home_score} and the guests from {away} {away_score}.
        {away} visited {home} on {day} and {away_result} {away_score}-{home_score}.
        {away} came to {home} and {away_result} {away_score}:{home_score}. {scorer} scored the first goal.
        Home: {home}. Away: {away}. [Score|Result]: {home_score}-{away_score}.
        I saw {home} at home against {away} on {day}; it was {home_score}:{away_score}.
        """)),
    ("What fans of {home} got to see: {home_score} for their own team, {away_score} for the guests, {away}.",
     "{home} hosted {away}; when it was over the board said {home_score}:{away_score}.",
     "Their trip to {home} on {day} left {away} with {away_score} on the board; the hosts had {home_score}."),
    {"day": ("They played on {day}.", "It was the match of {day}."),
     "scorer": ("The best player was {other}, but the first goal was by {scorer}.", "{scorer} scored the first goal.",
     "The first goal came from {scorer}.")},
    ("It rained the whole time.", "{long} people watched.", "The referee was {other}.", "It was a fair match."), 4)

BOOK = Domain(
    "Book", _fields("title book, author writer, year published:integer, pages page_count:integer, genre"), book,
    ("\"{title}\" is {a_genre} by {author}.", "{author} wrote \"{title}\" in {year}.",
     "The book \"{title}\" by {author} has {pages} pages.",
     "\"{title}\", written by {author}, came out in {year} and has {pages} pages.",
     "I have just read {author}'s {genre} \"{title}\".",
     "In {year} {author} published \"{title}\", {a_genre} of {pages} pages.", "\"{title}\" ({year}) by {author}",
     "Title: {title}. Author: {author}. Pages: {pages}.",
     "My favorite {genre} is \"{title}\". It was written by {author} in {year}.",
     "{author} is known for \"{title}\".",
     *lines("""
        [I am reading|we read|I like|she recommends|I have lost] "{title}" by {author}[, {pages} pages|][\
            , a book from {year}|].
        "{title}", {a_genre} by {author}, [is from {year}|has {pages} pages|came out in {year}].
        {author}: "{title}" ({year})[, {pages} pages|]
        {author}, {title}, {year}[, {pages} pages|]
        {title} - {author} - {year} - {genre}
        the {genre} "{title}" was written by {author}[ in {year}|].
        [written|published] in {year}, "{title}" by {author} is still [read today|loved].
        {author}'s "{title}" is {a_genre} [from {year}|of {pages} pages].
        with {pages} pages, "{title}" by {author} is not [short|a quick read|long].
        in {year} came "{title}", {a_genre} by {author}.
        Title: {title}[, |; |⏎]Author: {author}[, |; |⏎]Year: {year}
        if you like {a_genre}, read "{title}" by {author}.
        """)),
    ("It took {author} until {year} to finish \"{title}\", {pages} pages long.",
     "Have you got \"{title}\"? I mean the {genre} by {author}.",
     "{pages} pages, one {genre}: \"{title}\", from the pen of {author}."),
    {"year": ("It came out in {year}.", "It is from the year {year}."), "pages": ("It has {pages} pages.",
     "The book is {pages} pages long."),
     "genre": ("It is {a_genre}.",)},
    ("{other} liked it.", "I read {count} pages a day.", "The library in {place} has it.", "The cover is blue."))

BOOKING = Domain(
    "Booking", _fields("name guest, people guests persons:integer, day, time, place restaurant"), booking,
    ("A table for {people} people at {place} on {day} at {time}, please. The name is {name}.",
     "{name} would like a table for {people} at {place} on {day}.",
     "{name} has booked a table at {place} for {day}, {time}.",
     "Please keep a table for {people} people under the name {name}.",
     "{place}: table for {people} people, {day}, {time}, {name}.",
     "On {day} at {time} {name} comes to {place} with friends, {people} people in all.",
     "Table for {people} at {time}? The name is {name}.",
     "{name} reserved a table at {place}.",
     *lines("""
        [hello|hi|good evening], [I'd like|I would like|can I get|could I book] a table for {people} [\
            on {day} at {time}|at {time} on {day}]. My name is {name}.
        [hello|hi], {name} here. [A table for {people}|Dinner for {people} people|\
            There will be {people} of us] on {day} at {time}.
        {name} [booked|reserves|wants] a table for {people} [at {place} |]on {day}[ at {time}|].
        {name}, {people} people, {day}, {time}
        {day}, {time}: {name}, {people} guests
        {name} - {people} - {day} - {time} - {place}
        [there will be|expect] {people} [guests|people] on {day} at {time}, name {name}.
        [the table|a table] at {place} is for {people} people, {day} at {time}, under the name of {name}.
        not {count}, but {people} people will come with {name} on {day}.
        Name: {name}[, |; |⏎]Guests: {people}[, |; |⏎]Day: {day}[, |; |⏎]Time: {time}
        at {place}, {name} has a table for {people} on {day}[, {time}|].
        [book|reserve] a table for {people} at {place} for {name}, {day}, {time}.
        """)),
    ("We are {people}, and we would love to eat at {place} on {day}. Ask for {name}.",
     "Dinner at {place}! {name} takes care of it: {day}, {time}, {people} seats.",
     "{place} expects {name} and company, {people} heads, at {time}."),
    {"day": ("The day is {day}.", "It is for {day}."), "time": ("They come at {time}.", "It is for {time}."),
     "people": ("There will be {people} people.", "It is for {people} people.")},
    ("A seat at the window would be nice.", "{other} took the call.", "Last time it was too loud.",
     "Please bring the menu."))

FLAT = Domain(
    "Flat",
    _fields("city town, rooms room_count:integer, rent price:integer, floor:integer, garden has_garden:boolean, "
            "owner landlord"), flat,
    ("A flat with {rooms} rooms in {city} costs {rent} euros a month.",
     "For rent: {rooms} rooms in {city}, {rent} euros, floor {floor}.",
     "{owner} rents out a flat with {rooms} rooms in {city}.",
     "The flat in {city} {garden} and costs {rent} euros a month.",
     "In {city} there is a flat with {rooms} rooms on floor {floor}. It {garden}.",
     "Flat in {city}, {rooms} rooms. Ask {owner}.",
     "{rent} euros a month for {rooms} rooms in {city}. The place {garden}.",
     "The rent of the flat in {city} is {rent} euros.",
     *lines("""
        {city}: {rooms} rooms, {rent} euros[, floor {floor}|][, ask {owner}|]
        {rooms} rooms, {city}, {rent} euros a month
        [I am looking at|we found|I live in|there is] a flat in {city} with {rooms} rooms for {rent} euros[ a month|].
        [my|our|her] flat in {city} has {rooms} rooms[, costs {rent} euros| and is on floor {floor}].
        {owner} has a flat [for rent |]in {city}: {rooms} rooms, {rent} euros[, floor {floor}|].
        on floor {floor} in {city}, {owner} rents out {rooms} rooms[ for {rent} euros|].
        for {rent} euros a month you get {rooms} rooms in {city}[, floor {floor}|].
        the flat belongs to {owner}, is in {city} and costs {rent} euros.
        {owner} asks {rent} euros for {rooms} rooms in {city}.
        City: {city}[, |; |⏎]Rooms: {rooms}[, |; |⏎]Rent: {rent} euros[[, |; ]Floor: {floor}|]
        in {place} flats are cheap, but this one in {city} costs {rent} euros.
        """)),
    ("Tired of noise? {owner} offers {rooms} rooms in {city} for {rent} euros.",
     "You would live in {city} on floor {floor}, have {rooms} rooms and pay {rent} euros.",
     "This place in {city} {garden}; {owner} wants {rent} euros for it."),
    {"rooms": ("It has {rooms} rooms.", "There are {rooms} rooms."), "rent": ("The rent is {rent} euros a month.",),
     "garden": ("The flat {garden}.", "It {garden}."), "floor": ("It is on floor {floor}.",),
     "owner": ("It belongs to {owner}.", "The owner is {owner}.")},
    ("The school is {count} minutes away.", "{other} lives next door.", "It is very quiet.",
     "The train to {place} stops there."))

RECIPE = Domain(
    "Recipe",
    _fields("dish name meal, minutes time duration:integer, servings people:integer, main_ingredient ingredient, "
                      "vegetarian is_vegetarian:boolean"), recipe,
    ("The {dish} takes {minutes} minutes and is enough for {servings} people.",
     "Cook the {dish} for {minutes} minutes. The recipe is for {servings} people.",
     "You need {main_ingredient} for the {dish}. It takes {minutes} minutes.", "Our {dish} {vegetarian}.",
     "The recipe for {dish} serves {servings} and takes {minutes} minutes. It {vegetarian}.",
     "Today there is {dish} with a lot of {main_ingredient}.",
     "To make {dish} for {servings} people you need {main_ingredient} and {minutes} minutes.",
     "Dish: {dish}. Servings: {servings}. Minutes: {minutes}.",
     *lines("""
        [my|our|this|her] {dish} [takes|needs] {minutes} minutes[ and serves {servings}| and {vegetarian}|].
        [the|this] {dish} [serves|is for] {servings} people and {vegetarian}.
        {dish}: {minutes} minutes, {servings} servings, {main_ingredient}
        for {servings} people, cook {dish} with {main_ingredient}. It takes {minutes} minutes.
        [take|use|buy] {main_ingredient} for the {dish}[. It is ready in {minutes} minutes|].
        in {minutes} minutes the {dish} for {servings} is ready.
        the main thing in the {dish} is {main_ingredient}[; it serves {servings}|].
        we had {dish} today, made with {main_ingredient}. It {vegetarian}.
        [today|tonight|tomorrow] I cook {dish} for {servings} people[; it takes {minutes} minutes|].
        the {dish} {vegetarian} and takes {minutes} minutes.
        """)),
    ("Guests are coming? My {dish} feeds {servings} and is on the table in {minutes} minutes.",
     "Give the {dish} {minutes} minutes; without {main_ingredient} it is nothing.",
     "{servings} hungry people are happy with this {dish}, which {vegetarian}."),
    {"minutes": ("It is ready in {minutes} minutes.",), "servings": ("It serves {servings} people.",
     "It is enough for {servings}."),
     "main_ingredient": ("Most of all it needs {main_ingredient}.",),
     "vegetarian": ("It {vegetarian}.",)},
    ("My aunt {other} makes it every week.", "It tastes best in {place}.", "Do not forget the salt.", "Eat it warm."))

PARCEL = Domain(
    "Parcel",
    _fields("number tracking_number parcel_number, sender from, receiver recipient to, city destination, "
            "weight weight_kg:number, day arrival_day"), parcel,
    ("Parcel {number} from {sender} to {receiver} weighs {weight} kilos.",
     "{sender} sent a parcel to {receiver} in {city}.",
     "The parcel {number} for {receiver} arrives on {day}.", "On {day} {receiver} gets parcel {number} from {sender}.",
     "{receiver} in {city} waits for a parcel from {sender}. Its number is {number}.",
     "Parcel {number}: sender {sender}, receiver {receiver}, {weight} kilos.",
     "A parcel of {weight} kilos goes from {sender} to {receiver} in {city}.",
     "Number: {number}. Sender: {sender}. Receiver: {receiver}.",
     *lines("""
        [your|the] parcel {number} [is from|was sent by|comes from] {sender}[ and arrives on {day}|].
        {sender} [sent|mailed|has sent] {receiver} a parcel[ of {weight} kilos|][; the number is {number}|].
        {receiver} [got|will get|gets|received] a parcel [of {weight} kilos |]from {sender}[ on {day}|].
        from {sender} to {receiver}, {city}[, {weight} kilos|][, number {number}|]
        {number}: {sender} to {receiver}[, {weight} kilos|][, {day}|]
        [on {day}|this {day}] a parcel from {sender} [arrives|will arrive] in {city} for {receiver}.
        the parcel for {receiver} in {city} weighs {weight} kilos and comes from {sender}.
        parcel {number}, {weight} kilos, goes to {receiver} in {city}.
        {number} is the number of the parcel that {sender} sent to {receiver}.
        Sender: {sender}[, |; |⏎]Receiver: {receiver}[, |; |⏎]City: {city}[, |; |⏎]Weight: {weight} kilos
        {receiver} is waiting for parcel {number} from {sender}[; it weighs {weight} kilos|].
        """)),
    ("{receiver} should be at home on {day}, since {sender} has posted {number}.",
     "Something of {weight} kilos is on its way to {receiver} in {city}; {sender} paid for it.",
     "Handed in by {sender}, {number} is meant for {receiver}."),
    {"weight": ("It weighs {weight} kilos.", "The weight is {weight} kilos."), "day": ("It arrives on {day}.",
     "It will be there on {day}."),
     "city": ("It goes to {city}.", "{receiver} lives in {city}."), "number": ("The number is {number}.",
     "It has the number {number}.")},
    ("It was packed by {other}.", "The car stops in {place} first.", "It is {count} days late.",
     "Please ring the bell."))

DOMAINS = ((26, PERSON), (16, ORDER), (8, APPOINTMENT), (8, PRODUCT), (8, FLIGHT), (8, CONTACT), (7, WEATHER),
           (8, MATCH), (7, BOOK), (6, BOOKING), (6, FLAT), (5, RECIPE), (6, PARCEL))
