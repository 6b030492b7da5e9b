"""Topics with tips, and subjects with points for and against. Lists, paragraphs and essays are written from these."""

from __future__ import annotations

from typing import NamedTuple


class Tip(NamedTuple):
    title: str
    detail: str


def _topic(text: str) -> tuple[Tip, ...]:
    return tuple(Tip(*line.split(": ", 1)) for line in text.splitlines())


TIPS: dict[str, tuple[Tip, ...]] = {
    "staying healthy": _topic("""\
Balanced diet: Eat fruit, vegetables, grains and protein every day. A varied plate gives your body all it needs.
Exercise: Move your body for at least half an hour a day. Walking, swimming and cycling keep your heart strong.
Regular exercise: Move a little every day and take the stairs. Regular exercise keeps heart and muscles strong.
Enough sleep: Sleep seven to nine hours each night. A rested body fights illness and keeps your mind clear.
Drinking water: Drink a glass of water with every meal. Water carries nutrients and keeps your energy up.
Less stress: Take short breaks and breathe slowly. A calm mind helps the body to recover."""),
    "learning a language": _topic("""\
Daily practice: Study a little every day rather than a lot once a week. Short, regular practice keeps words in memory.
Speaking early: Speak from the first week, even with mistakes. Every conversation makes the next one easier.
Listening: Listen to songs, films and radio in the new language. Your ear learns the rhythm before your mouth does.
Reading: Read simple books and signs. Words that you meet in a story are easier to remember.
Word cards: Write new words on cards and repeat them. Repeating at growing intervals makes them last.
Small goals: Set one small goal for each week. A goal that you reach gives you new courage."""),
    "saving money": _topic("""\
A budget: Write down what you earn and what you spend. A budget shows where the money goes.
Cooking at home: Cook your own meals and take lunch with you. Eating out costs several times as much.
Comparing prices: Compare prices before you buy. The same thing is often cheaper in another shop.
Automatic saving: Move a fixed sum to savings on payday. Money that you do not see is not spent.
Repairing things: Repair what is broken before you replace it. A small repair often adds years of use.
A shopping list: Write a list before you go to the shop. With a list you buy only what you need."""),
    "writing well": _topic("""\
Short sentences: Keep most sentences short. Readers follow a short sentence without effort.
A clear plan: Decide what you want to say before you start. A plan keeps the text on its path.
Strong verbs: Choose verbs that carry the action. A strong verb needs no adverb.
Reading aloud: Read your text aloud. The ear finds mistakes that the eye misses.
Revising: Let the text rest and then revise it. Good writing is mostly rewriting.
Clear words: Use plain words that everyone knows. Plain words never stand between you and the reader."""),
    "growing tomatoes": _topic("""\
Plenty of sun: Place the plants where they get six hours of sun. Sunlight makes the fruit sweet.
Regular water: Water the soil in the morning, not the leaves. Even moisture keeps the fruit from splitting.
Rich soil: Mix compost into the soil before planting. Tomatoes need many nutrients to grow.
Support: Tie the stems to stakes. Support keeps the fruit off the ground.
Pruning: Remove the side shoots each week. The plant then puts its strength into the fruit.
Early harvest: Pick the fruit as soon as it is red. The plant then makes new fruit."""),
    "sleeping well": _topic("""\
A fixed time: Go to bed and get up at the same time each day. The body likes a steady rhythm.
A dark room: Keep the bedroom dark and quiet. Darkness tells the brain that it is night.
No screens: Put the phone away an hour before bed. Its light keeps the brain awake.
Less coffee: Drink no coffee in the afternoon. Caffeine stays in the body for hours.
A cool room: Open the window before you go to bed. The body sleeps best when it is cool.
A light dinner: Eat a small meal in the evening. A full stomach keeps the body busy."""),
    "giving a talk": _topic("""\
Practice: Practise the talk aloud several times. What you have said before comes easily.
One message: Choose one main message. Listeners remember one idea, not ten.
Eye contact: Look at the people you speak to. Eye contact builds trust.
Simple slides: Put few words on each slide. People cannot read and listen at once.
Pauses: Pause after an important point. A pause gives the audience time to think.
A strong start: Open with a question or a short story. A good first minute wins the audience."""),
    "studying for an exam": _topic("""\
Starting early: Start weeks before the exam. Learning in small steps is less stressful.
Testing yourself: Close the book and answer questions. Testing yourself shows what you do not know yet.
Short breaks: Take a break every half hour. The mind needs time to sort what it has learned.
A quiet place: Study where nothing distracts you. A quiet place saves hours.
Explaining: Explain the subject to a friend. You understand what you can explain.
Good sleep: Sleep well the night before. A tired mind forgets what it knows."""),
    "packing for a trip": _topic("""\
A list: Write a list before you pack. A list keeps you from forgetting the charger.
Light luggage: Take only what you will wear. Light luggage makes every step easier.
Rolled clothes: Roll your clothes instead of folding them. Rolled clothes take less space.
Documents: Keep passport and tickets in one place. You will need them quickly.
Layers: Pack layers rather than one thick coat. Layers fit any weather.
Small bottles: Fill soap and shampoo into small bottles. Small bottles save space and weight."""),
    "keeping a dog happy": _topic("""\
Long walks: Walk the dog at least twice a day. A tired dog is a happy dog.
Good food: Feed the dog at fixed times. Regular meals keep its stomach calm.
Training: Teach simple commands with small rewards. Training makes the dog feel safe.
Play: Play with the dog every day. Play keeps its mind awake.
Company: Do not leave the dog alone for long. Dogs are animals of the pack.
Health checks: Visit the vet once a year. Small problems are easy to treat when they are found early."""),
    "cooking rice": _topic("""\
Washing: Wash the rice until the water is clear. Washing removes the starch that makes it sticky.
The right amount: Use two cups of water for one cup of rice. The right amount makes it soft but not wet.
Low heat: Cook it on low heat with the lid on. Steam does the work.
Resting: Let the rice rest for ten minutes. Resting makes every grain even.
A fork: Loosen the rice with a fork. A spoon would crush the grains.
A little salt: Add a pinch of salt to the water. Salt brings out the taste of the rice."""),
    "working from home": _topic("""\
A desk: Work at a desk and not in bed. A fixed place tells your mind that it is time to work.
Fixed hours: Start and stop at fixed hours. Clear hours protect your evening.
Breaks: Stand up once an hour. Short breaks keep the back healthy.
Staying in touch: Call a colleague every day. A short talk keeps the team together.
Daylight: Sit near a window. Daylight lifts the mood.
A clear end: Close the computer when the work is done. A clear end lets the mind rest."""),
    "protecting the environment": _topic("""\
Less waste: Buy things that last and avoid packaging. What is never thrown away needs no landfill.
Public transport: Take the bus, the train or the bike. One full bus replaces forty cars.
Saving energy: Switch off lights and devices. The cleanest energy is the energy that nobody uses.
Planting trees: Plant trees and flowers. Trees clean the air and give shade.
Eating plants: Eat more vegetables and less meat. Plants need less land and water.
Saving water: Turn off the tap while you brush your teeth. Clean water is precious."""),
    "making friends": _topic("""\
Listening: Listen more than you speak. People like those who listen to them.
Joining a club: Join a club or a class. Shared interests start conversations.
Smiling: Smile when you meet someone. A smile says that you are open.
Inviting people: Invite people for a walk or a coffee. Someone has to make the first step.
Being honest: Be honest and keep promises. Trust grows slowly and lasts long.
Remembering names: Repeat a new name when you hear it. People are glad when you know their name."""),
    "baking bread": _topic("""\
Fresh flour: Use flour that is not too old. Fresh flour gives the bread a better taste.
Warm water: Mix the yeast with warm water, not with hot water. Too much heat kills the yeast.
Kneading: Knead the dough for ten minutes. Kneading makes the dough smooth and strong.
Time to rise: Let the dough rest until it is twice as big. Time gives the bread its flavor.
A hot oven: Heat the oven well before the bread goes in. A hot oven gives a crisp crust.
Cooling: Let the bread cool before you cut it. Hot bread tears under the knife."""),
    "making good coffee": _topic("""\
Fresh beans: Buy fresh beans in small bags. Old beans lose their smell and their taste.
Grinding: Grind the beans just before you use them. Ground coffee goes stale in a few days.
Good water: Use clean and soft water. Coffee is mostly water, so the water matters.
The right heat: Let boiling water cool for a minute. Water that is too hot makes the coffee bitter.
A clean pot: Wash the pot after every use. Old oil spoils the next cup.
Weighing: Weigh the coffee and the water. Then every cup tastes as good as the last."""),
    "taking care of a cat": _topic("""\
A clean box: Clean the litter box every day. Cats avoid a dirty box.
Fresh food: Give the cat small meals at fixed times. Small meals are easy on its stomach.
Scratching post: Put a post near its sleeping place. With a post the cat leaves the sofa alone.
Quiet corners: Give the cat a quiet place to hide. A cat that can hide feels safe.
Brushing: Brush its coat once a week. Brushing keeps hair off your clothes.
Toys: Move a toy in front of it every evening. Cats need to hunt, even indoors."""),
    "riding a bicycle in the city": _topic("""\
A helmet: Wear a helmet on every ride. A helmet protects your head in a fall.
Bright lights: Switch on the lights when it gets dark. Drivers must see you early.
Clear signals: Show with your arm where you want to go. Clear signals prevent accidents.
Good brakes: Test the brakes before you leave. Good brakes save you in a busy street.
Distance: Keep away from parked cars. A door can open at any moment.
Quiet streets: Choose small streets with little traffic. A quiet road is often faster than a busy one."""),
    "running your first race": _topic("""\
Slow training: Run slowly on most days. Slow runs build strength without pain.
Good shoes: Buy shoes that fit your feet. Good shoes protect knees and ankles.
Rest days: Take a day off after a hard run. Muscles grow while you rest.
A steady pace: Start slowly and keep the same speed. Those who start too fast finish last.
Enough water: Drink before and after the run. A dry body gets tired early.
Warming up: Walk and stretch before you run. Warm muscles are hard to hurt."""),
    "swimming": _topic("""\
Slow breathing: Breathe out under water and breathe in above it. Slow breathing keeps you calm.
A straight body: Keep your body long and flat. A flat body glides through the water.
Strong kicks: Kick from the hip and not from the knee. Long kicks push you forward.
Goggles: Wear goggles in the pool. You swim straight when you can see.
Short sets: Swim short distances with breaks. Many short sets teach more than one long swim.
Safe places: Swim where someone can see you. Water is never without danger."""),
    "planning a party": _topic("""\
The guest list: Write down who will come. The number of guests decides everything else.
An early invitation: Invite your guests three weeks before. Early letters find free evenings.
Simple food: Cook food that can wait. The cook should dance too.
Good music: Make a list of songs for the evening. Music fills the pauses between talks.
Enough chairs: Count the chairs before the guests come. Nobody likes to stand all night.
A helper: Ask a friend to help you. Two people clean up in half the time."""),
    "taking photographs": _topic("""\
Soft light: Take pictures in the morning or in the evening. Soft light makes colors warm.
A steady hand: Hold the camera with both hands. A steady hand gives sharp pictures.
A clean background: Look at what is behind the person. A clean background lets the face speak.
Coming closer: Take one more step forward. Small details tell the best stories.
Many tries: Take the same picture several times. One of ten will be good.
Low angles: Kneel down for children and animals. The world looks different from below."""),
    "keeping a garden": _topic("""\
Good soil: Feed the soil with compost. Healthy soil grows healthy plants.
The right place: Read how much sun each plant needs. A plant in the right place needs little help.
Weeding: Pull out weeds while they are small. Small weeds have short roots.
Morning water: Water the garden early in the day. Less water is lost in the cool morning.
Flowers for bees: Plant flowers between the vegetables. Bees bring the garden to life.
Sharp tools: Keep knife and spade sharp. Clean cuts heal quickly."""),
    "painting a room": _topic("""\
An empty room: Carry the furniture out before you start. An empty room is painted in half the time.
Tape: Cover the edges with tape. Tape gives you straight lines.
Clean walls: Wash the walls and let them dry. Paint does not hold on dust.
Two coats: Paint every wall twice. The second coat hides the last spots.
Fresh air: Keep the windows open. Fresh air dries the paint and clears your head.
Old clothes: Wear clothes that may get dirty. Paint drops never ask first."""),
    "finding a job": _topic("""\
A short letter: Write a letter of one page. Busy readers like short letters.
Honest words: Say what you can do and what you still learn. Honest words lead to the right job.
Good questions: Ask about the work and the team. Good questions show that you care.
Being on time: Arrive ten minutes early. The first impression starts at the door.
Practice talks: Practise the interview with a friend. What you said once is easy to say again.
Many tries: Write to several companies. Every answer teaches you something."""),
    "leading a team": _topic("""\
Clear goals: Tell everyone what the goal is. A team can only reach what it can see.
Trust: Let people decide how they do their work. Trust makes people careful.
Praise: Say thank you for good work. A kind word costs nothing and lasts for weeks.
Short meetings: Keep meetings under half an hour. Short meetings leave time for work.
Listening first: Hear every opinion before you decide. The quiet voice often has the best idea.
Fairness: Share easy and hard work fairly. Fair teams stay together."""),
    "reading more books": _topic("""\
A book in the bag: Carry a book wherever you go. A late bus becomes time to read.
Ten pages a day: Read ten pages every evening. Ten pages a day make a dozen books a year.
Stopping early: Put away a book that you do not like. The next book may be the right one.
The library: Visit the library every month. New shelves wake new interests.
A reading friend: Talk about books with a friend. A good talk makes you want to read on.
A reading chair: Choose one chair for reading. The chair will remind you of your book."""),
    "learning to draw": _topic("""\
Daily sketches: Draw one small thing every day. The hand learns by doing.
Simple shapes: Look for circles and squares in what you see. Every picture starts with simple shapes.
Looking longer: Look at the object more than at the paper. Drawing is mostly seeing.
Light and shadow: Find out where the light comes from. Shadows make flat shapes round.
Soft pencils: Use a soft pencil for the first lines. Soft lines are easy to change.
Keeping old work: Keep your old drawings in a box. They show you how far you have come."""),
    "playing the piano": _topic("""\
Slow practice: Play new pieces slowly at first. Speed comes when the fingers know the way.
One hand first: Learn each hand alone. Two easy parts make one hard part.
Straight back: Sit straight and relax your arms. A good seat prevents pain.
Short parts: Repeat only the bars that are hard. Short parts are learned quickly.
Counting aloud: Count the beats while you play. Counting keeps both hands together.
Playing for others: Play for your family now and then. Small concerts take away the fear."""),
    "living with roommates": _topic("""\
House rules: Agree on rules in the first week. Clear rules prevent quarrels.
A cleaning plan: Write down who cleans what. A plan is fair to everyone.
Quiet nights: Keep the music low after ten. Everyone needs sleep.
Shared costs: Put money for shared things into one box. A shared box saves long talks.
Open words: Speak about problems early. Small problems grow in silence.
Common meals: Cook together once a week. A common meal turns roommates into friends."""),
    "cleaning the kitchen": _topic("""\
Washing at once: Wash the dishes right after the meal. Fresh dirt comes off easily.
A clear table: Put away everything that you do not use. An empty table is wiped in seconds.
Hot water: Use hot water for greasy pans. Heat does half of the work.
Top to bottom: Start with the shelves and end with the floor. Dust always falls down.
Fresh towels: Change the towels twice a week. Old towels carry germs.
An empty sink: Leave the sink empty at night. A clean sink makes a good morning."""),
    "traveling by train": _topic("""\
Early tickets: Buy the ticket some weeks before. Early tickets are often cheaper.
A window seat: Book a seat by the window. The view is the best part of the trip.
A good book: Take a book with you. Hours pass quickly with a good story.
Something to eat: Pack bread and fruit for the way. Food on the train is expensive.
Time to change: Leave half an hour for every change. A late train then does no harm.
Light bags: Carry only one bag. Stairs are short with a light bag."""),
    "camping": _topic("""\
A dry place: Put up the tent on high ground. Rain runs down and finds the low places.
A warm bag: Bring a warm sleeping bag. Nights are colder than you think.
A lamp: Keep a lamp next to your bed. In the dark nothing can be found.
Closed boxes: Keep food in closed boxes. Open food brings hungry animals.
A small fire: Keep the fire small and never leave it alone. A small fire cooks as well as a big one.
No traces: Take all your trash home. The next guests want to see nature too."""),
    "saving energy at home": _topic("""\
Lower heat: Turn the heating down by one degree. One degree saves more than you think.
Closed windows: Close the windows while you heat. Open windows heat the street.
New lamps: Change old lamps for modern ones. Modern lamps need a tenth of the power.
Full machines: Run the washing machine only when it is full. Two half loads cost twice as much.
Lids on pots: Cook with a lid on the pot. The lid keeps the heat where you need it.
Switching off: Switch off devices that sleep. Even sleeping devices drink power."""),
    "staying calm": _topic("""\
Deep breaths: Breathe in slowly and count to four. Deep breaths slow the heart.
A short walk: Walk around the block. Moving legs quiet a busy mind.
Naming the feeling: Say what you feel. A feeling with a name is less strong.
A cup of tea: Make a cup of tea and drink it slowly. A small habit brings you back to the moment.
One thing at a time: Do one thing and then the next. The mind cannot run in two directions.
Asking for help: Call someone whom you trust. A shared worry is half a worry."""),
    "raising children": _topic("""\
Time together: Play with your children every day. Time is the best gift.
Clear limits: Say clearly what is allowed. Limits make children feel safe.
Bedtime stories: Read a story before they sleep. Stories build words and dreams.
Praise for effort: Praise the effort and not only the result. Children who try again go far.
A good example: Do what you want them to do. Children copy what they see.
Patience: Give them time to do things alone. They learn slowly and then suddenly."""),
    "shopping for food": _topic("""\
A full stomach: Eat before you go to the shop. Hungry people buy too much.
Fresh fruit: Choose fruit of the season. Fruit of the season is cheap and sweet.
Reading labels: Read what is in the box. The shortest list is often the best.
The market: Go to the market shortly before it closes. Late buyers get good prices.
Your own bag: Take your own bag with you. A strong bag lasts for years.
Meals for a week: Plan your meals for the week. Planned food is not thrown away."""),
    "learning mathematics": _topic("""\
Many exercises: Solve a few problems every day. Practice turns hard steps into easy ones.
Drawing pictures: Draw what the problem says. A picture shows what words hide.
Small numbers: Try the rule with small numbers first. Small numbers show how it works.
Checking results: Check the answer at the end. A quick check finds most mistakes.
Asking why: Ask why each step is allowed. Who knows the reason can forget the rule.
Writing steps: Write every step on its own line. Clear lines make mistakes easy to find."""),
    "growing herbs": _topic("""\
A sunny window: Put the pots in a sunny window. Most herbs love light.
Little water: Water only when the soil is dry. Wet roots rot.
Holes in the pot: Use pots with holes in the bottom. Water must be able to leave.
Cutting often: Cut a few leaves every week. Cutting makes the plant grow thick.
Fresh air: Open the window on warm days. Moving air keeps the leaves healthy.
Bigger pots: Move the plants to bigger pots in spring. Roots need room to grow."""),
    "keeping a diary": _topic("""\
A fixed hour: Write at the same hour every day. A fixed hour becomes a habit.
Short notes: Write three lines and stop. Short notes are better than empty pages.
Honest pages: Write what you really think. Nobody else has to read it.
A good pen: Choose a pen that you like. A good pen invites you to write.
Small things: Note small things like smells and songs. Small things bring back whole days.
Reading back: Read old pages once a year. Old pages show how you have changed."""),
}


class Point(NamedTuple):
    """One thing that speaks for or against a subject. `example` has a place {n} for a person."""

    title: str
    reason: str
    example: str


class Subject(NamedTuple):
    """`name` is a gerund or another singular; `things` is how one asks for advantages of it."""

    name: str
    things: str
    good: tuple[Point, ...]
    bad: tuple[Point, ...]


def _subject(text: str) -> Subject:
    """First line: name / things. Then `+` or `-`, title: reason | example."""
    names, *lines = text.splitlines()
    name, things = names.split(" / ")
    sides: dict[str, list[Point]] = {"+": [], "-": []}
    for line in lines:
        title, rest = line[2:].split(": ", 1)
        sides[line[0]].append(Point(title, *rest.split(" | ")))
    return Subject(name, things, tuple(sides["+"]), tuple(sides["-"]))


SUBJECTS: tuple[Subject, ...] = tuple(_subject(text) for text in """\
taking the train / trains
+ Comfort: Passengers can read or sleep on the way. | {n} reads a whole book on every trip.
+ Clean air: One full train replaces hundreds of cars. | {n} sold the car and now takes the train to work.
+ Safety: Accidents on the rails are very rare. | {n} lets the children travel to their grandmother alone.
- Delays: A late train can ruin the whole day. | {n} once waited two hours on a cold platform.
- Fixed times: Nobody can leave when it suits them. | {n} missed the last train and slept at the station.
- High prices: Tickets are expensive for families. | {n} paid more for the tickets than for the hotel.

riding a bicycle / bicycles
+ Health: Pedaling makes the heart strong. | {n} cycles to work and is never ill.
+ Low cost: A bicycle needs no fuel. | {n} saves a hundred coins every month.
+ No traffic jams: Bicycles pass every traffic jam. | {n} is home before the neighbors with their cars.
- Bad weather: Rain and snow make every ride hard. | {n} came to school wet three times this week.
- Danger: Cyclists have no metal around them. | {n} fell on a wet street and broke an arm.
- Small loads: A bicycle carries very little. | {n} tried to carry a table home and had to walk.

owning a car / cars
+ Freedom: A car leaves whenever its owner wants. | {n} drives to the lake on warm evenings.
+ Room for luggage: Heavy bags travel in the trunk. | {n} carries tools and ladders in the car.
+ Remote places: Many villages have no bus. | {n} visits a farm that no bus can reach.
- Cost: Fuel and repairs eat up money. | {n} spends half of the salary on an old car.
- Dirty air: Engines fill the streets with smoke. | {n} cannot open the window because of the smoke.
- Parking: Free parking places are hard to find. | {n} looks for a parking place every evening.

living in a city / city life
+ Work: Companies offer many jobs there. | {n} found three offers in one week.
+ Culture: Theaters and museums are close. | {n} visits a museum every Sunday.
+ Short ways: Shops and doctors are around the corner. | {n} reaches five shops on foot.
- Noise: Cars and neighbors are loud at night. | {n} sleeps with cotton in both ears.
- High rents: Small rooms cost a fortune. | {n} pays more for one room than others for a house.
- Crowds: Streets and buses are always full. | {n} stands in a packed bus every morning.

living in a village / village life
+ Silence: Nights are quiet and dark. | {n} hears only owls after sunset.
+ Neighbors: People know and help each other. | {n} was ill and got soup from four neighbors.
+ Nature: Fields and forests begin behind the house. | {n} walks through the forest before breakfast.
- Long ways: The next hospital is far away. | {n} drives an hour to see a doctor.
- Few jobs: Young people must leave to find work. | {n} moved away after school.
- Boredom: Nothing happens in the evening. | {n} watches the same film every Saturday.

cooking at home / home cooking
+ Health: Cooks know what is in their food. | {n} cooks with less salt and feels better.
+ Saving money: A homemade soup costs very little. | {n} feeds six people for the price of one pizza.
+ Company: Families talk while they cook. | {n} hears all the news while peeling potatoes.
- Lost time: Cooking takes an hour every evening. | {n} never has time to read because of the cooking.
- Dirty dishes: Every meal leaves a full sink. | {n} washed plates until midnight.
- Failed meals: Beginners burn many dinners. | {n} burned the rice three times in one week.

having a dog / dogs
+ Friendship: A dog is glad whenever its owner comes home. | {n} was lonely before the puppy came.
+ Exercise: Dog owners walk every day. | {n} walks five miles with the dog.
+ Protection: Thieves avoid houses with a dog. | {n} woke up when the dog barked at a stranger.
- Early mornings: A dog must go out in any weather. | {n} stands in the rain at six every morning.
- Vet bills: A sick dog costs a lot of money. | {n} paid the vet with the holiday money.
- Holidays: Many hotels refuse animals. | {n} has not traveled since the puppy came.

having a cat / cats
+ Calm: A purring cat calms its owner. | {n} forgets all worries with the cat on the sofa.
+ Little work: Cats clean themselves. | {n} has a cat and still works all day.
+ No mice: Mice stay away from a house with a cat. | {n} has seen no mouse for years.
- Scratches: Claws ruin sofas and curtains. | {n} bought a new sofa after one month.
- Hair: Cat hair sticks to every jacket. | {n} brushes a black coat every morning.
- Dead birds: Cats hunt birds in the garden. | {n} found a dead robin on the carpet.

learning a second language / foreign languages
+ New friends: Languages open the door to new friends. | {n} writes letters to friends in four countries.
+ A sharp mind: Grammar trains the brain. | {n} is eighty and learns ten words a day.
+ Better jobs: Companies look for people who speak two languages. | {n} got the job because of good Spanish.
- Years of work: It takes years before one speaks well. | {n} studied for six years and still makes mistakes.
- Forgetting: Words disappear when nobody uses them. | {n} forgot all French words after school.
- Expensive courses: Good lessons cost a lot. | {n} paid for a course and learned only greetings.

wearing a school uniform / school uniforms
+ Equality: Rich and poor pupils look the same. | {n} was never laughed at for old clothes.
+ Easy mornings: Pupils lose no time with choosing clothes. | {n} is dressed in two minutes.
+ Team spirit: Pupils feel that they belong together. | {n} still keeps the old jacket with pride.
- No freedom: Young people cannot show their own style. | {n} hated the gray skirt for eight years.
- Extra cost: Parents must buy special clothes. | {n} bought three jackets in a single year.
- Bad fit: Cheap uniforms are stiff and warm. | {n} sweats in the thick shirt every summer.

doing homework / homework
+ Practice: Pupils repeat what they heard in class. | {n} understood fractions only at the desk at home.
+ Independence: Children learn to plan their time. | {n} plans the whole week on Monday.
+ News for parents: Parents see what their children learn. | {n} checks the exercises every evening.
- Stress: Tired children sit at the desk until night. | {n} cried over the exercises last night.
- Unfair help: Some parents do the work themselves. | {n} let a father write the whole text.
- No free time: Games and friends must wait. | {n} stopped playing football because of the exercises.

reading books / books
+ Knowledge: Books hold what others have learned. | {n} learned to build a boat from a book.
+ Imagination: Readers see the story in their own mind. | {n} draws castles after every chapter.
+ Good sleep: A quiet chapter leads to good dreams. | {n} reads ten pages and sleeps like a stone.
- Tired eyes: Small letters tire the eyes. | {n} needs glasses after years of novels.
- Heavy bags: Thick novels fill every suitcase. | {n} carried nine novels to the beach.
- Sitting still: Readers hardly move for hours. | {n} sat on the sofa for the whole summer.

watching television / television
+ News: Viewers see what happens in the world. | {n} knows every president from the evening news.
+ Rest: A funny show helps after a hard day. | {n} laughs in front of the screen every night.
+ Learning: Nature films show distant animals. | {n} knows all whales from nature films.
- Wasted time: One show follows the next without end. | {n} lost a whole weekend in front of the screen.
- Silence at dinner: Families stop talking. | {n} eats with six people and hears only the screen.
- Advertising: Commercials make people buy useless things. | {n} ordered three knives after one commercial.

playing computer games / computer games
+ Quick thinking: Players decide in a split second. | {n} solves puzzles faster than any teacher.
+ Teamwork: Players on different continents work together. | {n} leads a team of eleven players.
+ Fun: Games bring joy after a long day. | {n} laughs aloud while racing against a brother.
- Addiction: Some players cannot stop. | {n} played for two days without sleep.
- Back pain: Hours on a chair hurt the back. | {n} went to a doctor with a stiff neck.
- Cost: New games are expensive every year. | {n} spent all birthday money on one game.

shopping online / online shops
+ Easy orders: Parcels come to the door. | {n} orders shoes from the sofa.
+ Large choice: The internet never runs out of goods. | {n} found a rare lamp in ten minutes.
+ Open at night: Websites never close. | {n} bought a present at three in the morning.
- Packaging: Every parcel brings a pile of cardboard. | {n} fills the trash every Friday with boxes.
- Wrong sizes: Nobody can try on a shirt on a screen. | {n} sent back four shirts in May.
- Empty streets: Small shops lose their customers. | {n} closed the family shop last year.

working from home / home office
+ No commute: Workers lose no time on the road. | {n} starts to work one minute after breakfast.
+ Quiet work: Nobody interrupts a hard task. | {n} finished a long report in one day.
+ Family time: Parents see their children at noon. | {n} eats lunch with both sons.
- Loneliness: Colleagues become names on a screen. | {n} talked to nobody for a week.
- Endless days: Work and evening become one. | {n} answers letters at midnight.
- Disturbances: Children and parcels break the silence. | {n} was called to the door nine times.

traveling alone / trips alone
+ Own pace: The traveler alone decides where to go. | {n} stayed a week in a town without a name.
+ New people: Solo travelers meet strangers easily. | {n} found a best friend on a ferry.
+ Courage: Solving problems alone makes people brave. | {n} was shy before the trip to Peru.
- Danger: Nobody helps in an emergency. | {n} lost the passport and had nobody to call.
- Lonely dinners: An empty chair stands at every table. | {n} ate alone for thirty evenings.
- Higher prices: Single rooms cost almost as much as double rooms. | {n} paid for two beds and used one.

camping / camping trips
+ Cheap nights: A tent costs less than any hotel. | {n} spent a month at the sea for little money.
+ Stars: Campers see the whole sky at night. | {n} counted forty shooting stars in August.
+ Simple life: A tent teaches what people really need. | {n} lived with one pot and one spoon.
- Wet tents: A storm soaks everything. | {n} woke up in a puddle.
- Mosquitoes: Insects bite all night long. | {n} came back with sixty bites.
- Hard ground: Stones press through every mat. | {n} could hardly stand up in the morning.

drinking coffee / coffee
+ Energy: A cup wakes up the mind. | {n} writes the best pages after a strong cup.
+ Meetings: A cup brings colleagues together. | {n} met a husband at the machine in the hall.
+ Good smell: The smell of roasted beans makes people happy. | {n} gets up only for that smell.
- Bad sleep: Caffeine keeps people awake. | {n} looked at the ceiling until four.
- Shaking hands: Too many cups make people nervous. | {n} could not hold a pen after five cups.
- Habit: Many people get a headache without it. | {n} had a headache for three days without a cup.

having a smartphone / smartphones
+ Maps: Nobody gets lost anymore. | {n} found a tiny street in Cairo.
+ Photos: A good camera is always in the pocket. | {n} took a picture of a falling star.
+ Help: An emergency call takes seconds. | {n} called a doctor from a mountain.
- Distraction: Messages break every thought. | {n} looks at the screen two hundred times a day.
- Cost: A new phone costs a month of work. | {n} dropped a new phone into a river.
- Rude silence: Friends look at screens and not at each other. | {n} had dinner with four silent friends.

playing an instrument / music lessons
+ Patience: Musicians learn to repeat hard parts. | {n} needed a year for one song.
+ Joy: Music makes players and listeners happy. | {n} plays the violin for sick children.
+ Memory: Notes train the memory. | {n} knows forty songs by heart.
- Noise: Beginners torture their neighbors. | {n} practices the trumpet in the basement.
- Price: Good instruments are expensive. | {n} saved five years for a piano.
- Hours of practice: Progress is painfully slow. | {n} gave up the guitar after two winters.

growing vegetables / vegetable gardens
+ Fresh taste: Vegetables taste best when they are just picked. | {n} eats peas straight from the garden.
+ Movement: Digging keeps people fit. | {n} is ninety and still digs every spring.
+ Pride: Gardeners are proud of their harvest. | {n} showed a giant pumpkin to the whole street.
- Hungry snails: Snails eat what people planted. | {n} lost forty plants in one night.
- Dry summers: Plants must be watered every day. | {n} carries twenty cans of water each evening.
- Small harvest: Months of work bring a handful of beans. | {n} harvested two carrots last autumn.

getting up early / early mornings
+ Quiet hours: Nobody calls at five in the morning. | {n} wrote a novel before breakfast.
+ Sunrise: Early risers see the sun come up. | {n} watches the sky turn red every day.
+ Less stress: Mornings without hurry start the day well. | {n} drinks tea slowly before work.
- Tired evenings: Early risers fall asleep at dinner. | {n} slept through a birthday party.
- Dark winters: In December it is dark and cold at five. | {n} walks to the bus with a lamp.
- Against nature: Many people think best late at night. | {n} put salt into the coffee at dawn.

living near the sea / life by the sea
+ Fresh wind: Salty air is good for the lungs. | {n} has not coughed since moving to the coast.
+ Beaches: Summer begins at the front door. | {n} swims before work from May to October.
+ Fresh fish: Fishermen sell their catch at the harbor. | {n} buys a mackerel every Friday.
- Storms: Waves and wind damage houses. | {n} lost a roof in November.
- Tourists: Visitors fill every street in July. | {n} cannot find a free bench in summer.
- Rust: Salt eats metal. | {n} had to replace the fence after four years.
""".strip().split("\n\n"))
