"""Questions as people wrote them, in no template of ours: the hardest part of the evaluation. Never trained on.

Each row: question / what the answer must contain.
"""

from __future__ import annotations

QUESTIONS: tuple[tuple[str, str], ...] = tuple(
    (question, answer) for question, answer in (row.rsplit(" / ", 1) for row in """\
Paris is the capital of what nation? / France
I'm going to Tokyo next week. What country is that the capital of? / Japan
If I travel to Brazil, which language will I hear? / Portuguese
Hey, quick one: capital of Norway? / Oslo
Which money should I bring to Japan? / yen
In what part of the world is Kenya located? / Africa
What's the name of Italy's capital city? / Rome
Could you remind me which city is the seat of government of Canada? / Ottawa
What language is mostly used by people living in Austria? / German
My kid asks what a baby kangaroo is called. / joey
how do you call a baby sheep / lamb
What do pandas like to eat? / bamboo
Are whales mammals? / Yes
How many legs do spiders have? / eight
Where do penguins live? / sea
What type of animal is a frog exactly? / amphibian
Chemical symbol for gold? / Au
Fe stands for which element? / iron
What is the number of protons in an oxygen atom? / 8
Is helium a noble gas? / Yes
Which planet comes third from the sun? / Earth
Which is the biggest planet of all? / Jupiter
What planet do people call the red planet? / Mars
Who came up with the telephone? / Bell
The light bulb was invented by whom? / Edison
Penicillin: who found it? / Fleming
Which writer gave us Hamlet? / Shakespeare
Who's the author of the book Frankenstein? / Shelley
The opposite of hot is what? / cold
Tell me a word that means the opposite of big. / small
What colour has the sky? / blue
How would a French person say hello? / bonjour
How much is 15 and 27 together? / 42
I have 20 apples and eat 6. How many are left? / 14
add 33 and 12 / 45
What do you get if you take 9 away from 50? / 41
Which number is bigger: 71 or 17? / 71
Where would I find the Eiffel Tower? / France
The Colosseum stands in which country? / Italy
Is Madrid the capital of Portugal? / No""".splitlines()))
