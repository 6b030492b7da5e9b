"""Wordings of requests to extract fields from a text. `{f}` stands for the fields, `{s}` for the text."""

from __future__ import annotations

from ..alternatives import lines
from .json_text import Frames

WORDS = {
    "ask": "|||||please |I want you to |I need you to |your task is to |your job: |now |task: |let us |you should |"
           "go ahead and |kindly |I'd like you to |first of all, |your turn: |try to |we need to |just |you have to ",
    "can": "can you |could you |would you |can you please |could you please |will you |would you please ",
    "get": "extract|get|find|pull out|take|collect|give me|give|return|list|write down|read off|tell me|show|fetch|"
           "identify|output|detect|state|name|determine|provide|parse|look up|grab|isolate",
    "write": "write|make|create|build|produce|generate|give me|return|output|prepare|print|I need|I want|send me",
    "json": "JSON|JSON|a JSON object|json|valid JSON|one JSON object|a JSON record|an object in JSON",
    "as": "as JSON|as JSON|in JSON|as a JSON object|as json|in JSON form|using JSON|as valid JSON|as one JSON object",
    "text": "text|text|sentence|message|line|mail|report|paragraph|passage|input|statement|snippet|email|entry",
    "this": "this|the following|the|my|the given|that",
    "below": "below|that follows|at the end|given here|under this line",
    "above": "above|before this|at the top",
    "keys": "fields|fields|keys|keys|the fields|the keys|these fields:|these keys:|just the fields|only the keys|"
            "exactly the fields|the keys named",
    "f": "{f}|{f}|{f}|{f}|the fields {f}|the keys {f}",
    "end": "||||Thanks.|Only JSON, please.|No other words.|Do not explain.|Just the JSON.|Nothing else.|Thank you!|"
           "Do not add other keys.|Keep the order of the keys.|Use null for what is missing.",
    "br": " | |⏎|⏎|⏎⏎",
    "s": "{s}|{s}|{s}|\"{s}\"",
    "is": ":|:| is:| reads:| =|:⏎",
    "Text": "Text|Text|Input|Sentence|Message|The text|Mail|Data|Source|Content|Given text|Example|The message",
    "Keys": "Fields|Keys|Fields needed|Required keys|Output keys|JSON keys|I want|Wanted|The fields|The keys|Extract",
}

FRAMES = Frames(
    listed=lines("""
        Extract {f} as JSON: {s}
        extract {f} <as>[:|.]<br>{s}
        <ask><get> <f> <as>[:|.]<br><s>
        <ask><get> <f> <as>. <end><br><s>
        <ask><get> <f> from <this> <text> <as>:<br><s>
        <ask><get> <f> from <this> <text>. [Answer|Reply|Respond|The answer should be|Write the answer] <in>.<br><s>
        <ask><get> <f> <as> from <this> <text>:<br><s>
        <can><get> <f> from <this> <text> <as>?<br><s>
        <can><get> <f> <as>?<br><s>
        from <this> <text>, <ask><get> <f> <as>[:|.]<br><s>
        <s><br>[From this, |From this text, |Now |]<get> <f> <as>.
        <s>⏎[⏎|]<ask><get> <f> <as>.[ <end>|]
        <s>⏎[⏎|]<can><get> <f> from <this> <text> <as>?
        <s>⏎[⏎|]<write> <json> with {f}.
        <s>⏎[⏎|]{f} <as>[.|, please.|]
        <s>⏎[⏎|]<Keys>: {f}⏎[JSON:|Output: JSON|Format: JSON]
        <write> <json> with {f} [from|for|about|out of] <this> <text>:<br><s>
        <write> <json> that [has|holds|contains|gives] {f}[:|.]<br><s>
        [what are|what is said about|which values has the text for|what does the text say about] {f}? [Answer|Reply|\
            Respond] <in>.<br><s>
        [what are|tell me] {f} in <this> <text>? [Answer|Reply|Respond] <in>.<br><s>
        <Text><is> <s>⏎<Keys>: {f}[⏎JSON:|⏎Format: JSON|⏎Output as JSON.|. Answer in JSON.]
        <Keys>: {f}[⏎|. ]<Text><is> <s>[⏎JSON:|⏎Output: JSON|⏎Answer in JSON.|⏎<write> JSON.]
        <Text><is> <s>⏎<ask><get> <f> <as>.[ <end>|]
        [here is|this is|look at|read|I have|I got|consider|take] <this> <text>: <s>[ |⏎]<Get> <f> <as>.
        [read|go through|look at|study|take] <this> <text> <below> and <get> <f> <as>.<br><s>
        [turn|convert|change|make|put] <this> <text> [into|to] <json> with <keys> {f}[:|.]<br><s>
        {f} <as>[:|, please:]<br><s>
        {f}[ as| to| ->| in|,] JSON[:| for:| from:]<br><s>
        JSON[ with| of|:] {f}[:| for:| from:|, text:]<br><s>
        JSON ({f})[:| for:|]<br><s>
        json with {f}⏎{s}
        [I need|I want|I would like|we need|I am looking for] {f} <as>. [The text is|The text|Here is the text|\
            It is about this]: <s>
        [I need|I want|I would like|we need] <json> with {f}[ out of| from] <this> <text>:<br><s>
        [which|what] {f} does <this> <text> [name|give|say|mention|contain]? [Answer|Reply] <in>.<br><s>
        [fill|complete] <json> with <keys> {f} [from|using|with the help of] <this> <text>:<br><s>
        [you get|you are given|I give you] a [text|message|report|sentence|line]. <Get> <f> <as>.<br><s>
        [answer|reply|respond] <in>. <Keys>: {f}.<br><s>
        [information|data|field] extraction. Fields: {f}. Format: JSON.<br><s>
        """,
        **WORDS, **{"in": "in JSON|with JSON|as JSON|with a JSON object|only in JSON|in JSON format|with JSON only",
                    "Get": "Extract|Get|Find|Pull out|Give me|Return|List|Write down|Show|Output|Provide"}),
    bare=lines("""
        <ask><change> <this> <text> <into> <json>[:|.]<br><s>
        <can><change> <this> <text> <into> <json>?<br><s>
        <s>⏎[⏎|]<ask><change> <this> <text> <into> <json>.[ <end>|]
        <s>⏎[⏎|][as JSON|in JSON|JSON], please.
        <s>⏎[⏎|]<write> <json>[ of this| from this| for this|].
        <Text><is> <s>⏎[JSON:|JSON, please.|Output: JSON|Answer in JSON.|Format: JSON]
        <write> <json> [from|for|about|out of] <this> <text>:<br><s>
        [extract|get|give me|put] [the data|the facts|what the text says|all the data|everything|the details] <as>[:|\
            .]<br><s>
        what does <this> <text> say? [Answer|Reply|Respond] in JSON.<br><s>
        [I need|I want|we need] <this> <text> <as>[:|.]<br><s>
        [as JSON|in JSON|JSON|to JSON][:|, please:]<br><s>
        [read|look at] <this> <text> and <get0> <json>.<br><s>
        """, **WORDS, change="turn|convert|change|put|transfer|make|parse|rewrite|bring|structure",
        into="into|to", get0="give me|write|return|make"),
    template=lines("""
        <ask><fill> <form>[ from| using| with| with the data of] <this> <text>:<br><s>⏎{f}
        <ask><fill> {f} [from|using|with the data of|with what is said in] <this> <text>:<br><s>
        <can><fill> {f} [from|using|with the data of] <this> <text>?<br><s>
        <s>⏎[⏎|]<ask><fill> <form>[ from the text|]:⏎{f}
        <s>⏎[⏎|][answer|reply] in [this|the following] [format|form|layout]: {f}
        [extract|put the data|put what is said] into [this form|this JSON|the following JSON].⏎{f}⏎<Text><is> <s>
        <form>:⏎{f}⏎<Text><is> <s>
        [Template|Form|Format|Output|Answer format|JSON form]: {f}⏎<Text><is> <s>
        <Text><is> <s>⏎[Template|Form|Format|JSON|Output|Answer format]:[ |⏎]{f}
        [read|look at|take] <this> <text>: <s>⏎[Then|Now] answer in this [format|form]:⏎{f}
        the [output|answer|result|reply] [should look like|has to look like|must have the form] {f}⏎[The input is|\
            The text is|It is about|Use this text]: <s>
        {f}⏎<fill0> this [from|using|with the help of] <this> <text>:<br><s>
        I have <this> <text>: <s>⏎[and I want|I need|I would like|Give me] JSON like {f}
        what does <this> <text> say? [Answer|Reply] with JSON of this form: {f}⏎<s>
        """, **WORDS, fill="fill in|complete|fill|fill out|finish|replace the empty values of|fill the gaps of",
        fill0="Fill in|Complete|Fill out|Finish",
        form="this form|this JSON|the JSON|the empty JSON|this object|the form"),
    schema=lines("""
        <ask><get> <json> [for|that fits|that follows|under|with] this schema: {f}⏎<Text><is> <s>
        [Schema|JSON Schema|The schema|Output schema|Use this schema]:[ |⏎]{f}⏎<Text><is> <s>
        <Text><is> <s>⏎[Schema|JSON Schema|The schema|Output schema|Use this schema]:[ |⏎]{f}
        <s>⏎[⏎|]<write> <json> that [fits|follows|is valid under|matches|obeys|has] this schema:⏎{f}
        <s>⏎[⏎|]<ask>[turn this|put this|put the data] into JSON [of|with|under] the schema {f}
        here is a schema:⏎{f}⏎[Here is a text|And a text|The text]: <s>[⏎Write the object.|⏎JSON:|]
        <ask>[follow|use|obey|fill] the schema {f}[ and extract the data from| for| with the data of]: <s>
        [read|take|look at] <this> <text> and fill the schema.⏎{f}⏎[⏎|]<s>
        [this is|here is|I have] <this> <text>: <s>⏎<Write> an object that is valid under this schema: {f}
        {f}⏎[This is the schema|The schema is above|Use the schema above]. <Text><is> <s>
        """,
        **WORDS, Write="Return|Write|Give me|Make|I need"),
    code=lines("""
        <ask><get> <json> of this type: {f}⏎<Text><is> <s>
        [Type|The type|Output type|Answer type]:[ |⏎]{f}⏎<Text><is> <s>[⏎Write the JSON.|⏎JSON:|]
        <Text><is> <s>⏎[Type|The type|Output type|Answer with JSON of this type]:[ |⏎]{f}
        <s>⏎[⏎|]<ask>[turn|put|change|convert] this into JSON [with these fields and types|of this type]: {f}
        <s>⏎[⏎|]<write> <json> of [this|the following] type:⏎{f}
        <write> <json> of this type from <this> <text>.⏎{f}⏎[⏎|]<s>
        the [fields|keys] are {f}⏎[Get|Take|Extract|Read] them [from|out of] <this> <text> <as>:<br><s>
        {f}⏎[Fill this|Fill the type|Fill this type] [from|with] <this> <text>, <as>:<br><s>
        I have <this> <text>: <s>⏎[I need|I want|Give me|Write] JSON of the type {f}
        """, **WORDS),
)

UNSEEN_FRAMES = Frames(
    listed=(
        "Here comes a note. Pick out {f}, and hand them back as JSON.\n\n{s}",
        "\"{s}\"\n\nSummarize that as JSON holding {f}.",
        "I am filling a database with the columns {f}. Give me the JSON row for: {s}",
        "Scan the note and report {f} in JSON format: {s}",
        "{s} <- please transform into JSON, attributes: {f}",
    ),
    bare=("Represent this note as JSON. {s}", "{s}\n\nHow would a program store that? Answer in JSON."),
    template=("{f}\nSupply the missing values, using only this note: {s}",
              "My database takes rows such as {f}\nWhich row does this note give? {s}"),
    schema=("A validator will check your reply against {f}\nThe note to process: {s}",
            "Process this note: {s}\nThe reply must conform to\n{f}"),
    code=("Parse the note below so that my program can load it as {f}\n\n{s}",
          "Populate this type with what the note says.\n{f}\nNote: {s}"),
)
"""Wordings that only the evaluation uses."""

LIST_WORDS = {
    "list": "JSON list|JSON array|list in JSON|JSON array of objects|JSON list of objects",
    "write": "give|give me|write|make|return|output|create|produce|I need|I want|build|extract",
    "ask": "|||please |now |your task is to |I want you to |let us |task: ",
    "with": "with {f} of each|with {f} for each|each with {f}|with the keys {f}|(keys: {f})|({f})|of {f}",
    "br": " |⏎|⏎|⏎⏎",
    "text": "text|message|lines|list|report|data|input|entries",
}
LIST_ASKS = lines("""
    <write> a <list> <with>:<br>{s}
    <ask>[turn|convert|change|put] [this|the|the following] <text> into a <list> <with>:<br>{s}
    <ask>[extract|get|find|list|collect|take] {f} of [each|every one|all of them|each entry] as a <list>:<br>{s}
    {s}⏎[⏎|]<list>[, please|], each with {f}.
    {s}⏎[⏎|]<write> a <list> <with>.
    {s}⏎[⏎|]for each of them <write> {f}, in a <list>.
    make one JSON object with {f} for each entry and put them in a list.<br>{s}
    Text:[ |⏎]{s}⏎[Return|Write|Give|Answer with] a JSON [array|list]. Keys: {f}.
    Keys: {f}. [Format|Output]: JSON [list|array], one object per entry.<br>{s}
    how many are there, and what are their {f}? [Answer|Reply|Respond] with a JSON list.<br>{s}
    [read|look at|go through] this and write one JSON object per entry, with {f}, as a list:<br>{s}
    [can|could] you [list|extract|give me] {f} of each one as a <list>?<br>{s}
    """, **LIST_WORDS)

TEXT_FORMS = (
    "Text: {s}\nJSON:{j} ", "Input: {s}\nOutput:{j} ", "{s}\n{j}", "{s} ->{j} ",
    "Text: {s}\nThe {f} of this text as JSON:\n{j}",
    "Please extract {f} from the following text.\nBegin of the text.\n{s}\nEnd of the text.\nHere is the JSON:\n{j}",
    "Message:\n{s}\n\nData:\n{j}", "Q: {s} ({f})\nA:{j} ",
    "Read the text.\n\n{s}\n\nHere are the {f} in JSON format.\n{j}",
    "\"{s}\"\nAs a JSON object with {f}:\n{j}", "# Text\n{s}\n# JSON\n{j}",
)

SYSTEMS = lines("""
    [Extract|Get|Find|Return|Pull out|Give] {f} [from|of] every [message|text|input] [and answer in JSON|as JSON|\
        as a JSON object].
    You [turn|change|convert] [messages|texts|what the user writes] into JSON with the keys {f}.
    [Reply|Answer|Respond] [with JSON only|only in JSON|with a JSON object|in JSON]. [Fields|Keys]: {f}.
    You are a program that reads text and returns {f} as JSON.[ If a value is missing, write null.|]
    You are [a parser|an extractor|a data service|an extraction tool]. [Output|Return|Answer with] JSON: {f}.
    The user sends [texts|messages|short texts]. [Return|Extract|Give] {f} of each as a JSON object.
    [Output format|Format|Answers]: JSON with {f}.[ Use null for what is not said.|]
    [For every|For each|To every] message, answer with JSON that holds {f}[ and nothing else|].
    """)
