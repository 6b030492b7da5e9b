"""Wordings of requests for JSON about the world's things. `{s}` is the thing, `{f}` the fields, `{k}` the kind."""

from __future__ import annotations

from ..alternatives import lines
from .json_text import Frames

WORDS = {
    "ask": "|||||please |now |I want you to |I need you to |your task is to |let us |kindly |go ahead and |try to ",
    "can": "can you |could you |would you |could you please |can you please ",
    "write": "give|give me|write|make|return|output|create|produce|show|show me|print|build|send me|prepare",
    "list": "JSON list|JSON array|JSON list of objects|JSON array of objects|list of JSON objects|list in JSON",
    "any": "|||any ",
    "n": "{n}|{n}|{d}",
    "with": "with|with the fields|with the keys|giving|showing",
    "json": "JSON|JSON|a JSON object|json|valid JSON|one JSON object|a JSON record",
    "as": "as JSON|in JSON|as a JSON object|as json|in JSON form|as one JSON object",
    "keys": "Fields|Keys|Fields needed|Required keys|Keys of the object|I want",
    "end": "|||| Thanks.| Only JSON, please.| No other words.| Do not explain.| Just the JSON.| Nothing else.",
}

FRAMES = Frames(
    listed=(
        "Give {s} as JSON with {f}.", "Describe {s} in JSON with the fields {f}.", "JSON for {s}: {f}",
        "Write a JSON object about {s} with {f}.", "Return JSON for {s} with these fields: {f}.",
        "Please fill in a JSON object with {f} for {s}.", "{s} as JSON: {f}", "I need {f} of {s} as a JSON object.",
        "Show {f} of {s} as JSON.", "Output a JSON object for {s}. Keys: {f}.", "Tell me {f} of {s} in JSON.",
        "Make a JSON object for {s} that has {f}.", "Create JSON with {f} about {s}.", "{s} ({f}) as JSON",
        "Could you give me a JSON object with {f} for {s}?", "Can you write {s} as JSON, using the keys {f}?",
        "Using the keys {f}, describe {s} as a JSON object.", "Keys: {f}. Subject: {s}. Write the JSON.",
        "Fill these fields for {s} and answer in JSON: {f}.", "JSON object, fields {f}, about {s}, please.",
        "Reply with JSON that has exactly the keys {f} and describes {s}.", "Put {f} of {s} into JSON.",
        "Subject: {s}\nFields: {f}\nFormat: JSON", "Build a JSON record of {s}. It should have {f}.",
        "For {s}, give {f}. Use JSON.", "About {s}: {f}. JSON please.", "I want JSON. {s}: {f}",
        "Write down {s} as a JSON object ({f}).",
        "I would like a JSON object for {s} with the keys {f}, in this order.",
        "Give me JSON with only {f} for {s}.", "Look at {s}. Which values do these fields have: {f}? Answer in JSON.",
        "Hello! Please make JSON about {s} with {f}. Thank you.", "Object: {s}\nKeys: {f}\nJSON:",
        "Answer with a JSON object. Fields: {f}. It is about {s}.",
        *lines("""
            <ask><write> <json> [for|about|of|on] {s} [with|with the fields|with the keys] {f}.<end>
            <ask><write> {f} [of|for] {s} <as>.<end>
            <can><write> {f} [of|for] {s} <as>?<end>
            <can><write> <json> [for|about|of|on] {s}? <keys>: {f}.
            <ask>describe {s} <as> [with|using] [|the fields |the keys |just ]{f}.<end>
            {s} <as>[, please|][. |: |, ][fields |keys |with |]{f}
            {f} [of|for] {s}[, | ]<as>[.|, please.|]
            <keys>: {f}. [Subject|Thing|About]: {s}.[ Format: JSON.| JSON:|]<end>
            [I need|I want|we need|I would like] <json> [for|about|on] {s}[ with|:] {f}.<end>
            what are {f} of {s}? [Answer|Reply|Respond] [in JSON|with JSON|with a JSON object].<end>
            """, **WORDS),
    ),
    bare=(
        "Give {s} as JSON.", "Describe {s} in JSON.", "Write a JSON object about {s}.", "Return JSON for {s}.",
        "Please fill in a JSON object for {s}.", "{s} as JSON", "JSON for {s}, please.", "What is {s}? Answer in JSON.",
        "Tell me about {s} in JSON.", "Show {s} as a JSON object.", "I need a JSON object for {s}.",
        "Make JSON about {s}.", "Could you write {s} as JSON?", "Turn what you know about {s} into JSON.",
        "Facts about {s} in JSON form, please.", "JSON: {s}",
    ),
    template=(
        "Fill in this form for {s}: {f}", "Complete this JSON for {s}:\n{f}", "{f}\nFill this in for {s}.",
        "Here is an empty JSON object: {f} Fill it with the facts about {s}.", "Use this form for {s}:\n{f}",
        "Answer in this format: {f}\nSubject: {s}", "Template: {f}\nSubject: {s}",
        "Describe {s} as JSON like this: {f}",
        "Give me {s} in this format:\n{f}", "Fill the blanks for {s}.\n{f}",
        "Please replace the empty values: {f}. It is about {s}.",
        "Tell me about {s}. Reply with JSON of this form:\n{f}", "Write JSON for {s}. It must look like {f}",
        "What belongs into {f} when the subject is {s}?", "{s}\n{f}", "Return {f} with the values for {s}.",
        "Example of the output: {f}\nNow do it for {s}.",
        "I have this JSON template:\n{f}\nFill it in for {s}, please.",
    ),
    schema=(
        "Write JSON about {s} that fits this schema:\n{f}", "Schema: {f}\nGive {s} as JSON.",
        "JSON Schema: {f}\nSubject: {s}",
        "Describe {s} with a JSON object that follows this schema: {f}", "{f}\nMake an object of this schema for {s}.",
        "Here is a JSON Schema:\n{f}\nPlease answer for {s}.",
        "Answer with JSON that is valid under {f}\nTell me about {s}.",
        "Give me {s} as JSON. The schema is {f}", "Follow the schema.\n{f}\nThing: {s}",
        "Use the following schema for your answer: {f}\nWhat do you know about {s}?", "Fill the schema {f} for {s}.",
        "Return an object for {s}, schema:\n{f}",
        "You get a schema and a subject.\nSchema: {f}\nSubject: {s}\nWrite the JSON.",
    ),
    code=(
        "Give {s} as JSON of this type: {f}", "Type:\n{f}\nWrite {s} as JSON.",
        "JSON for {s}, with these fields and types: {f}",
        "{f}\nMake a JSON object of this type for {s}.", "Fill this type for {s} and answer in JSON.\n{f}",
        "The output is JSON and has the type {f}\nIt is about {s}.", "Write a JSON object for {s}. Its type is\n{f}",
        "Return JSON about {s} that this type can hold: {f}",
    ),
)

UNSEEN_FRAMES = Frames(
    listed=(
        "From what you know about {s}, compose JSON holding just {f}.", "Serialize {s} to JSON. Attributes: {f}.",
        "My program reads JSON. It wants to learn {f} from you; the topic is {s}.",
        "Let me have {f} for {s}, encoded as JSON.",
        "Attributes wanted: {f}. Topic: {s}. JSON, nothing else.", "Would you present {s} as JSON limited to {f}?",
    ),
    bare=("Let me see {s} in JSON notation.", "Summarize {s} using JSON.", "How would {s} look as JSON?"),
    template=("Take {s} and put the right values here: {f}", "{f}\nThe topic is {s}; supply the missing values.",
              "Could you populate {f} with data on {s}?"),
    schema=("Validated against {f} your reply about {s} must pass.",
            "The reply gets checked with this schema:\n{f}\nTopic: {s}",
            "Produce data on {s} conforming to {f}"),
    code=("My parser expects {f}\nProduce JSON on the topic {s}.",
          "Populate an instance of\n{f}\nwith data on {s}, as JSON."),
)
"""Wordings that only the evaluation uses."""

LIST_ASKS = {
    "objects": lines("""
        <ask>give {s} as a <list> with {f}.
        <ask>write a <list> with {f} for {s}.
        <write> a <list>[ with| of|:] {f} for {s}.
        <can>write {s} as a <list> with {f}?
        JSON [list|array] of {k}: {c}. [Fields|Keys]: {f}.
        [Fields|Keys]: {f}. [Make|Write|Return] a <list> for [these {k}: {c}|{s}].
        for each of {s}, <write> {f}. [Answer|Reply] with a <list>.
        return a <list> ({f}) for {c}.
        [list|describe|show] {s} in JSON, each with {f}.
        {c}: a JSON [array|list] with {f}[, please|].
        [I need|I want|I would like] {f} of {s} as a <list>.
        {k} {c} as [JSON list|JSON array] with {f}
        make a table of {s} as JSON rows with {f}.
        <ask>write one JSON [array|list] with an object for each of {c}. Keys: {f}.
        JSON [array|list], one object per {K}: {c}. Each has {f}.
        """, **WORDS),
    "values": lines("""
        <ask>give the {f} of {s} as a JSON [list|array].
        JSON [list|array] of the {f} of [each of |]{c}.
        for {s}, [list|give|write] the {f} as a JSON [array|list].
        a JSON [array|list] with the {f} of {s}[, please|].
        return only a JSON [list|array]: the {f} of {c}, in this order.
        I have the {k} {c}. [Give me|Write|Return] a JSON [array|list] of {f} values.
        the {f} of {s}, [only|just] a JSON [list|array] of values.
        """, **WORDS),
    "map": lines("""
        <ask>map each of {s} to its {f} as a JSON object.
        JSON object from {K} to {f} for {c}.
        <ask>give a JSON object with {s} as keys and the {f} as value.
        for {s}, <write> a JSON map of the {f}.
        {c}: a JSON [dictionary|map|object] from name to {f}[, please|].
        which {f} belongs to each of {s}? [Answer|Reply] with a JSON map.
        JSON map, name to {f}: {c}
        """, **WORDS),
    "some": lines("""
        <ask><write> a <list> of <any><n> {k} <with> {f}.
        <ask><write> a <list>[ of|:| with] <n> {k}, each with {f}.
        <can><write> a <list> of <any><n> {k} <with> {f}?
        <can>[list|name|choose] <n> {k} in JSON? [Fields|Keys]: {f}.
        <n> {k} as a <list> <with> {f}[.|, please.|]
        <n> {k}[, |: | - ]{f}[, |. ]JSON [list|array][.|, please.|]
        <ask>[list|name|choose] <any><n> {k} [in JSON|as JSON]. [Fields|Keys]: {f}.
        <ask>[name|choose|think of] <any><n> {k} and <write> {f} of each as a <list>.
        [I need|I want|I would like|we need] <any><n> {k} in a <list>. [Fields|Keys]: {f}.
        JSON [array|list] of <n> {k} ({f})[, please|].
        <n> {k}, as a <list>. [Keys|Fields]: {f}.
        which <n> {k} do you know? [Answer|Reply] with a <list>, each with {f}.
        """, **WORDS),
}

TEXT_LEADS = (
    "", "{s} in JSON:\n", "{s}:\n", "{K}: {s}\n", "The {k} as JSON:\n", "JSON: ", "Subject: {s}\nJSON: ", "{s} -> ",
    "Here is the information about {s} in JSON format:\n", "{s} as a JSON object with {f}:\n",
    "Please fill in the following information about {s}.\n", "Fill in {f} for {s}.\n",
    "Question: What is {s}?\nAnswer in JSON: ",
    "The following JSON describes {s}.\n", "Here is {s} in JSON format, with {f}.\n", "Record of {s}:\n", "{s} ({f})\n",
    "# {s}\n", "Information about {s}:\n", "Task: describe {s} in JSON.\nResult: ",
)

FORMAT_SYSTEMS = (
    "Answer in JSON with the fields {f}.", "For every thing that the user names, reply with a JSON object: {f}.",
    "You are a JSON service. Keys of every answer: {f}.", "You answer only in JSON. The fields are {f}.",
    "The user names things. Give {f} of each as JSON.", "Reply with JSON ({f}) and nothing else.",
    "Turn what the user names into a JSON object with {f}.", "Output format: JSON. Fields: {f}.",
)

FOLLOW_UPS = (
    "Now {s}.", "The same for {s}.", "And {s}?", "Do the same for {s}, please.", "Next: {s}", "{s}, same format.",
    "Now the same fields for {s}.", "What about {s}?", "Again, for {s}.", "And now JSON for {s}.",
)
