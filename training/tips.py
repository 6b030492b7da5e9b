"""Topics with tips, each with two sentences of detail. The model writes lists and paragraphs from these."""

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
Word cards: Write new words on cards and repeat them. Repeating at growing intervals makes them last."""),
    "saving money": _topic("""\
A budget: Write down what you earn and what you spend. A budget shows where the money goes.
Cooking at home: Cook your own meals and take lunch with you. Eating out costs several times as much.
Comparing prices: Compare prices before you buy. The same thing is often cheaper in another shop.
Automatic saving: Move a fixed sum to savings on payday. Money that you do not see is not spent.
Repairing things: Repair what is broken before you replace it. A small repair often adds years of use."""),
    "writing well": _topic("""\
Short sentences: Keep most sentences short. Readers follow a short sentence without effort.
A clear plan: Decide what you want to say before you start. A plan keeps the text on its path.
Strong verbs: Choose verbs that carry the action. A strong verb needs no adverb.
Reading aloud: Read your text aloud. The ear finds mistakes that the eye misses.
Revising: Let the text rest and then revise it. Good writing is mostly rewriting."""),
    "growing tomatoes": _topic("""\
Plenty of sun: Place the plants where they get six hours of sun. Sunlight makes the fruit sweet.
Regular water: Water the soil in the morning, not the leaves. Even moisture keeps the fruit from splitting.
Rich soil: Mix compost into the soil before planting. Tomatoes need many nutrients to grow.
Support: Tie the stems to stakes. Support keeps the fruit off the ground.
Pruning: Remove the side shoots each week. The plant then puts its strength into the fruit."""),
    "sleeping well": _topic("""\
A fixed time: Go to bed and get up at the same time each day. The body likes a steady rhythm.
A dark room: Keep the bedroom dark and quiet. Darkness tells the brain that it is night.
No screens: Put the phone away an hour before bed. Its light keeps the brain awake.
Less coffee: Drink no coffee in the afternoon. Caffeine stays in the body for hours.
A cool room: Open the window before you go to bed. The body sleeps best when it is cool."""),
    "giving a talk": _topic("""\
Practice: Practise the talk aloud several times. What you have said before comes easily.
One message: Choose one main message. Listeners remember one idea, not ten.
Eye contact: Look at the people you speak to. Eye contact builds trust.
Simple slides: Put few words on each slide. People cannot read and listen at once.
Pauses: Pause after an important point. A pause gives the audience time to think."""),
    "studying for an exam": _topic("""\
Starting early: Start weeks before the exam. Learning in small steps is less stressful.
Testing yourself: Close the book and answer questions. Testing yourself shows what you do not know yet.
Short breaks: Take a break every half hour. The mind needs time to sort what it has learned.
A quiet place: Study where nothing distracts you. A quiet place saves hours.
Explaining: Explain the subject to a friend. You understand what you can explain."""),
    "packing for a trip": _topic("""\
A list: Write a list before you pack. A list keeps you from forgetting the charger.
Light luggage: Take only what you will wear. Light luggage makes every step easier.
Rolled clothes: Roll your clothes instead of folding them. Rolled clothes take less space.
Documents: Keep passport and tickets in one place. You will need them quickly.
Layers: Pack layers rather than one thick coat. Layers fit any weather."""),
    "keeping a dog happy": _topic("""\
Long walks: Walk the dog at least twice a day. A tired dog is a happy dog.
Good food: Feed the dog at fixed times. Regular meals keep its stomach calm.
Training: Teach simple commands with small rewards. Training makes the dog feel safe.
Play: Play with the dog every day. Play keeps its mind awake.
Company: Do not leave the dog alone for long. Dogs are animals of the pack."""),
    "cooking rice": _topic("""\
Washing: Wash the rice until the water is clear. Washing removes the starch that makes it sticky.
The right amount: Use two cups of water for one cup of rice. The right amount makes it soft but not wet.
Low heat: Cook it on low heat with the lid on. Steam does the work.
Resting: Let the rice rest for ten minutes. Resting makes every grain even.
A fork: Loosen the rice with a fork. A spoon would crush the grains."""),
    "working from home": _topic("""\
A desk: Work at a desk and not in bed. A fixed place tells your mind that it is time to work.
Fixed hours: Start and stop at fixed hours. Clear hours protect your evening.
Breaks: Stand up once an hour. Short breaks keep the back healthy.
Staying in touch: Call a colleague every day. A short talk keeps the team together.
Daylight: Sit near a window. Daylight lifts the mood."""),
    "protecting the environment": _topic("""\
Less waste: Buy things that last and avoid packaging. What is never thrown away needs no landfill.
Public transport: Take the bus, the train or the bike. One full bus replaces forty cars.
Saving energy: Switch off lights and devices. The cleanest energy is the energy that nobody uses.
Planting trees: Plant trees and flowers. Trees clean the air and give shade.
Eating plants: Eat more vegetables and less meat. Plants need less land and water."""),
    "making friends": _topic("""\
Listening: Listen more than you speak. People like those who listen to them.
Joining a club: Join a club or a class. Shared interests start conversations.
Smiling: Smile when you meet someone. A smile says that you are open.
Inviting people: Invite people for a walk or a coffee. Someone has to make the first step.
Being honest: Be honest and keep promises. Trust grows slowly and lasts long."""),
}
