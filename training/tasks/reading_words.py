"""The forms in which a text and a question are handed over, for `alternatives.expand`; {p} text, {q} question.

The UNSEEN ones are for the evaluation only.
"""

from __future__ import annotations

from random import Random

from ..alternatives import expand

_TEXT = "[text|text|passage|paragraph|story|note|article|extract]"
_HEAD = "[Text|Text|Passage|Passage|Context|Article|Paragraph|Information|Input|Story|Facts|Excerpt|TEXT]"
_ASK = "[Question|Question|Question|Q|QUESTION|My question|User question]"
_READ = f"[Read|Please read|Look at|Study|Consider|Take|Go through] [the|this|the following] {_TEXT}[| and answer]"
_FROM = (f"[Answer|Answer|Please answer|Reply|Answer my question|Answer the question|Give the answer|Respond] "
         f"[from|using|with the help of|based on|only from|using only|with] [the|this|the following] {_TEXT}")
_ELSE = ("[|||| If the answer is not there, say so.| Say so if it is not there.| If the text does not say it, tell me."
         "| Do not guess.| Use nothing else.]")
_THEN = "[Answer|Now answer|Tell me|Please answer|My question|Answer this|The question is|What I ask is]"
_END = "[.|:]"
_GAP = "[\n|\n\n|\n\n]"
_QUOTED = "[{p}|{p}|{p}|\"{p}\"|'''\n{p}\n'''|---\n{p}\n---|<text>\n{p}\n</text>|```\n{p}\n```|> {p}]"
READ_ASKS = (
    "{p}" + _GAP + "{q}", "{p}" + _GAP + "{q}", "{p} {q}", _QUOTED + _GAP + "{q}", "{q}" + _GAP + _QUOTED,
    "{q}" + _GAP + _HEAD + "[: |:\n]{p}",
    _READ + "." + _ELSE + _GAP + _QUOTED + _GAP + "{q}",
    _FROM + "." + _ELSE + _GAP + _QUOTED + _GAP + "{q}", _FROM + ":" + _GAP + _QUOTED + _GAP + "{q}",
    _FROM + "." + _ELSE + _GAP + _HEAD + "[: |:\n]{p}" + _GAP + _ASK + "[: |:\n]{q}",
    _HEAD + "[: |:\n]{p}" + _GAP + _ASK + ": {q}", _HEAD + "[: |:\n]{p}" + _GAP + "{q}",
    _ASK + ": {q}" + _GAP + _HEAD + "[: |:\n]{p}", "{p}" + _GAP + _ASK + ": {q}",
    "[Someone|A friend|My boss|My teacher|A colleague] [wrote|told me|says]: {p}" + _GAP + "{q}",
    "[I read|I heard|I was told|We know|It is known] this: {p}[ |\n\n]{q}",
    "[### |# |## ]" + _HEAD + "\n{p}\n\n[### |# |## ]" + _ASK + "\n{q}",
    f"[Use|Use only|You know only|You have only] this {_TEXT}: {{p}}" + _GAP + "{q}",
    "[Here is|Here comes|Below is|This is] [a|the|my] [text|story|note|passage][| that I found| for you]:\n{p}\n\n"
    + _THEN + ": {q}",
    "[What does it say here?|What do you learn from this?|Find the answer.] {q}" + _GAP + _QUOTED,
)
_BRIEF = ("[Answer briefly.|Just the answer, please.|Give only the answer.|Short answer only."
          "|Be brief.|Answer with words from the text.|Give a short answer.|Answer in a few words.|Only the answer."
          "|Keep it short.|No full sentence, please.|Quote the answer.]")
BRIEF_READ_ASKS = (_BRIEF + _GAP + _QUOTED + _GAP + "{q}", "{p}" + _GAP + "{q} " + _BRIEF,
                   "{q} " + _BRIEF + _GAP + _QUOTED,
                   _READ + ". " + _BRIEF + _GAP + "{p}" + _GAP + "{q}",
                   _BRIEF + _GAP + _HEAD + ": {p}" + _GAP + _ASK + ": {q}",
                   _HEAD + ": {p}" + _GAP + _ASK + ": {q}" + _GAP + _BRIEF)
_DOCUMENTS = "[documents|documents|sources|texts|search results|notes|snippets|results|files|records|pages]"
_DOCUMENTS_HEAD = "[Documents|Documents|Sources|Context|Search results|Texts|Results|References|Records|Notes]"
_FROM_DOCUMENTS = (f"[Answer|Please answer|Answer the question|Reply|Answer me] [from|using|with the help of|based on|"
                   f"using only] [the|these|the following] {_DOCUMENTS}")
DOCUMENT_ASKS = (
    "{p}" + _GAP + "{q}", "{q}" + _GAP + "{p}", _FROM_DOCUMENTS + _END + _GAP + "{p}" + _GAP + "{q}",
    _FROM_DOCUMENTS + "." + _ELSE.replace("the text does", "they do") + _GAP + "{p}" + _GAP + _ASK + ": {q}",
    "{p}" + _GAP + _FROM_DOCUMENTS + ": {q}", _DOCUMENTS_HEAD + ":\n{p}" + _GAP + "{q}",
    _DOCUMENTS_HEAD + ":\n{p}" + _GAP + _ASK + ": {q}", _ASK + ": {q}" + _GAP + _DOCUMENTS_HEAD + ":\n{p}",
    "[Here are|I found|I have|These are|We have|You have] [some|these|the following|a few] " + _DOCUMENTS
    + "[.|:]\n{p}" + _GAP + "{q}",
    "[Use|Read|Look through|Search|Check] [these|the following] " + _DOCUMENTS + "[.|:]" + _GAP + "{p}" + _GAP + "{q}",
    "{p}" + _GAP + "[What do they say?|Which one tells?|Search them:|Look it up:] {q}",
    "[### |# ]" + _DOCUMENTS_HEAD + "\n{p}\n\n[### |# ]" + _ASK + "\n{q}",
)
CITED_ASKS = ("{q} [Give|Name|State|Add|Please give|Please name|Also give] the "
              "[number|source|document|number of the document].",
              "{q} [Cite|Cite|Please cite|Quote] [the document|the source|your source].",
              "[Cite|Name|Give|State] the [document|source] [with|in|after] your answer. {q}",
              "{q} [Where does it say so?|And which document says it?|With the source, please.|With the number.]")
UNSEEN_READ_ASKS = (
    "Someone sent me this message:\n\n{p}\n\nGoing by that message: {q}",
    "Have a look at the following lines, please.\n---\n{p}\n---\n{q}",
    "My question is: {q} You will find the facts, if there are any, in this report:\n{p}",
    "{p}\n\nBased on what stands above, {q}",
)
UNSEEN_DOCUMENT_ASKS = (
    "These pieces came back from our archive:\n\n{p}\n\nWith nothing but these pieces: {q}",
    "A customer asks: {q}\nHere is what we have on file.\n{p}",
    "<sources>\n{p}\n</sources>\n{q}",
)
WHICH_ASKS = ("Which [document|source|one|text] [says it|says that|is it|tells that|was it|did you use]?",
              "Where does it say [that|so|this]?", "What is [your|the] source?",
              "In which [document|text|source] is that?",
              "Where did you [find|read] [this|that|it]?", "Name the [source|document].", "[Source|Which document]?",
              "Give me the [source|number of the document|document].", "Can you cite [it|the document|the source]?")


def handed_over(rng: Random, templates: tuple[str, ...], text: str, question: str) -> str:
    """The text and the question in one request."""
    frame = expand(rng, rng.choice(templates))
    return frame.replace("{q}", question).replace("{p}", text)
