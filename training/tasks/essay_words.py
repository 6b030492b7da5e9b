"""How people ask for a judgement of an essay, whether it is one, what it is about, and for the merge of judgements.

{d} a dimension, {s} a subject. UNSEEN_ ones are for the evaluation only; {x} is where the essay stands, if the wording
itself says it.
"""

from __future__ import annotations

_ESSAY = "[this essay|the essay|the following essay|this text|my essay|this|the text|my text|this piece|the " \
         "following text]"
_JUDGE = "[judge|evaluate|rate|assess|review|grade|check|score|examine]"
JUDGE_ASKS = (
    f"[|please |now ]{_JUDGE} {_ESSAY} on {{d}}.", f"[|please |now ]{_JUDGE} the {{d}} of {_ESSAY}[| from 1 to 5|, "
                                                   f"please].",
    f"[how good is|how is|how well done is|what about|what do you say about] the {{d}} of {_ESSAY}?",
    "dimension: {d}[|.]",
    f"[give|write|I need|I want] a [judgment|judgment and a score|short judgment|score] [for|of|on] the {{d}} of "
    f"{_ESSAY}.",
    f"{_JUDGE} {_ESSAY} on the [following |]dimension[:| of] {{d}}.", "[criterion|dimension|aspect|point|judge]: {d}",
    f"[can|could|would] you [please |][{_JUDGE}|look at|comment on] the {{d}} of {_ESSAY}[| for me]?",
    f"[you are a teacher|you are a judge|be a fair judge|you grade essays]. [Judge|Rate|Evaluate|Check|Assess] the "
    f"{{d}} of {_ESSAY}.",
    f"[read|look at] {_ESSAY} and {_JUDGE} its {{d}}.", "{d} of this essay?", "essay judgment, {d}",
    "what about the {d}?",
    f"[say|tell me] what you [see|notice|find] [about|concerning] the {{d}} of {_ESSAY}, then give a score.",
    f"what [score|mark|number] from 1 to 5 [does the {{d}} of {_ESSAY} get|fits the {{d}} of {_ESSAY}]?",
    "a [pupil|student|child|friend] wrote [this|this essay]. [Judge|Rate|Evaluate|Check|Assess] the {d}[|, please].",
    "{d}, from 1 to 5[|:|?|, please]", f"[I am|we are] [interested in|looking at] the {{d}} of {_ESSAY}. Your "
                                       f"judgment?",
    f"[is|would you call] the {{d}} of {_ESSAY} [good|bad|fine]? [Score it|Give a score] from 1 to 5.",
)
UNSEEN_JUDGE_ASKS = (
    "With an eye on {d} only, what would an examiner note about the lines below, and how many points from 1 to 5?\n{x}",
    "{x}\n\nMark the above. I only care about {d}.", "As far as {d} goes, how well did this writer do? {x}",
    "My student handed in this essay today:\n{x}\nCan you assess it? What matters to me is {d}.",
)
_YES_NO = "[|| Yes or no?| Answer yes or no.]"
VALID_ASKS = (
    f"is [this|this text|the following text|the text|it] an essay?{_YES_NO}",
    f"is this a [valid|real|proper] essay?{_YES_NO}",
    "answer yes or no: is this [text |]an essay?", f"[would you call this|do you call this|can one call this] an "
                                                   f"essay?{_YES_NO}",
    f"[tell me|say] [if|whether] [this|the text|this text] is an essay.{_YES_NO}",
    "an essay or not? [Yes or no?|Say yes or no.]",
)
ABOUT_ASKS = (
    f"is {_ESSAY} about {{s}}?",     f"is {{s}} the [topic|subject|theme] of {_ESSAY}?",
    f"does {_ESSAY} [deal with|talk about|speak of|discuss|treat] {{s}}?", "is it about {s}?",
    f"[tell me|say|check] [if|whether] {_ESSAY} is about {{s}}.",
    f"{{s}}: is that the [topic|subject|theme] of {_ESSAY}?",
    f"[the topic|the subject|the task] was {{s}}. Is {_ESSAY} about [that|it]?", "is the [topic|subject] {s}?",
    f"my pupils had to write about {{s}}. Is {_ESSAY} about that?", f"does the writer of {_ESSAY} write about {{s}}?",
)
_JSON = "[as JSON|in JSON|in the JSON format|as a JSON object]"
MERGE_ASKS = (
    f"[give|return|write|provide|make|I need] [a|the] summary and [a|the] [grade|letter grade|grade from A to D] "
    f"{_JSON}[|, please].",
    f"[now |please |]sum up the [judgments|scores|results] and give a grade, {_JSON}.",
    "[write|return|give me] JSON with the keys summary and grade.", f"summary and grade {_JSON}[|, please|:|.]",
    f"[turn|make] [these|the] [scores|judgments] into a summary and a grade {_JSON}.",
    f"[merge|join|collect] the [judgments|scores|results] {_JSON}, with summary and grade.",
    f"[what is the summary and the grade|what are summary and grade]? [Answer|Write it|Reply] {_JSON}.",
)
UNSEEN_MERGE_ASKS = ("Put it all together: what is the verdict, with a letter for it? JSON object please.",
                     "Combine these into one JSON record that has a summary and a final letter grade.")
