"""Prompt templates as people write them, and what becomes of each by code motion."""

from __future__ import annotations

import inspect
import string
from dataclasses import dataclass
from typing import Any

import sgnb as sgl
from sgnb.lang import SglFunction


@dataclass(frozen=True)
class Template:
    """`{names}` are arguments; `{{` is a brace. A chat's text is the user's turn."""

    name: str
    text: str
    moved: str = ""  # what it becomes
    stays: str = ""  # or a part of the reason why it stays as it is
    chat: bool = False

    @property
    def arguments(self) -> list[str]:
        parsed = string.Formatter().parse(self.text)
        return list(dict.fromkeys(name for _, name, _, _ in parsed if name))

    def program(self) -> SglFunction:
        """A program with the template's arguments, which generates once."""

        def program(s: Any, **values: str) -> None:
            text = self.text.format(**values)
            s += (
                sgl.user(text) + sgl.assistant(sgl.gen("answer"))
                if self.chat
                else (text + sgl.gen("answer"))
            )

        parameters = [inspect.Parameter("s", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        parameters += [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in self.arguments]
        program.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        program.__name__ = self.name
        return SglFunction(program)


TEMPLATES = (
    Template(
        "answers_from_a_context",
        """\
Context:
{context}

Question: {question}

Answer from the context alone. If the context does not say it, write "not stated".

Answer:""",
        """\
Answer from the context alone. If the context does not say it, write "not stated".

Context:
{context}

Question: {question}

Answer:""",
    ),
    Template(
        "sentiment",
        """\
Review: {review}

Decide whether the review is positive, negative or mixed. Write one word in lower case.

Sentiment:""",
        """\
Decide whether the review is positive, negative or mixed. Write one word in lower case.

Review: {review}

Sentiment:""",
    ),
    Template(
        "summary",
        """\
{article}

Summarize the article in three bullet points for a busy reader. Leave out numbers unless they \
are the news.""",
        """\
Summarize the article in three bullet points for a busy reader. Leave out numbers unless they \
are the news.

{article}""",
        chat=True,
    ),
    Template(
        "examples_after_a_context",
        """\
Context: {context}

Examples:
Q: How many days does a week have?
A: seven

Q: Which month follows May?
A: June

Q: {question}
A:""",
        """\
Examples:
Q: How many days does a week have?
A: seven

Q: Which month follows May?
A: June

Context: {context}

Q: {question}
A:""",
    ),
    Template(
        "fields_as_json",
        """\
Email:
{email}

Return a JSON object with these keys:
{{
  "sender": "the name of who wrote the email",
  "wish": "what the sender asks for, in one sentence",
  "urgent": true or false
}}

JSON:""",
        """\
Return a JSON object with these keys:
{{
  "sender": "the name of who wrote the email",
  "wish": "what the sender asks for, in one sentence",
  "urgent": true or false
}}

Email:
{email}

JSON:""",
    ),
    Template(
        "grades",
        """\
Essay:
{essay}

Score the essay on clarity, evidence and structure, each from 1 to 10. A 10 is rare.

Scores:""",
        """\
Score the essay on clarity, evidence and structure, each from 1 to 10. A 10 is rare.

Essay:
{essay}

Scores:""",
    ),
    Template(
        "ticket_in_sections",
        """\
### Ticket
{ticket}

### Instructions
Classify the ticket. Use one of these categories:

- billing
- delivery
- returns
- other

### Category
""",
        """\
### Instructions
Classify the ticket. Use one of these categories:

- billing
- delivery
- returns
- other

### Ticket
{ticket}

### Category
""",
    ),
    Template(
        "document_in_tags",
        """\
<document>
{document}
</document>

<instructions>
Answer the question in one sentence. Quote the sentence of the document that you rely on.

Say "I do not know" where the document is silent.
</instructions>

<question>
{question}
</question>""",
        """\
<instructions>
Answer the question in one sentence. Quote the sentence of the document that you rely on.

Say "I do not know" where the document is silent.
</instructions>

<document>
{document}
</document>

<question>
{question}
</question>""",
        chat=True,
    ),
    Template(
        "sql",
        """\
Question: {question}

Schema:
CREATE TABLE singers (id INTEGER, name TEXT, country TEXT);
CREATE TABLE concerts (id INTEGER, singer INTEGER, year INTEGER);

Write one SQLite query that answers the question. Return SQL only.

SQL:""",
        """\
Schema:
CREATE TABLE singers (id INTEGER, name TEXT, country TEXT);
CREATE TABLE concerts (id INTEGER, singer INTEGER, year INTEGER);

Write one SQLite query that answers the question. Return SQL only.

Question: {question}

SQL:""",
    ),
    Template(
        "code_review",
        """\
Here is a diff:
```
{diff}
```

Review the change. Report bugs only, each with its line.

Write "no bugs" if you find none.""",
        """\
Review the change. Report bugs only, each with its line.

Write "no bugs" if you find none.

Here is a diff:
```
{diff}
```""",
        chat=True,
    ),
    Template(
        "translation",
        """\
Source text: {text}

Translate the source text into {language}.

Keep names and numbers as they are. Do not explain anything.

Translation:""",
        """\
Keep names and numbers as they are. Do not explain anything.

Source text: {text}

Translate the source text into {language}.

Translation:""",
    ),
    Template(
        "support_agent",
        """\
Customer message: {message}

You are a support agent of a shop that sells lamps. Be polite, be brief, and never promise a \
refund.

Reply:""",
        """\
You are a support agent of a shop that sells lamps. Be polite, be brief, and never promise a \
refund.

Customer message: {message}

Reply:""",
    ),
    Template(
        "hashtags_in_lines",
        """\
Post: {post}
Suggest three hashtags for the post, in lower case, without spaces.
Hashtags:""",
        """\
Suggest three hashtags for the post, in lower case, without spaces.
Post: {post}
Hashtags:""",
    ),
    Template(
        "word_problem",
        """\
Problem: {problem}

Solve the problem. Write one step a line, and the result after "####".

Solution:""",
        """\
Solve the problem. Write one step a line, and the result after "####".

Problem: {problem}

Solution:""",
    ),
    Template(
        "entities",
        """\
Sentence: {sentence}

Labels:
PER for people, living or not
ORG for companies, offices and clubs
LOC for places on a map

Mark every name in the sentence with its label, as name/label, in their order.

Entities:""",
        """\
Labels:
PER for people, living or not
ORG for companies, offices and clubs
LOC for places on a map

Mark every name in the sentence with its label, as name/label, in their order.

Sentence: {sentence}

Entities:""",
    ),
    Template(
        "claim",
        """\
Claim: {claim}

Evidence: {evidence}

Say whether the evidence supports the claim, refutes it, or says too little.

Answer with one of SUPPORTS, REFUTES, UNKNOWN.

Verdict:""",
        """\
Say whether the evidence supports the claim, refutes it, or says too little.

Answer with one of SUPPORTS, REFUTES, UNKNOWN.

Claim: {claim}

Evidence: {evidence}

Verdict:""",
    ),
    Template(
        "context_above",
        """\
Context: {context}

Question: {question}

Answer the question from the context above, in one sentence.

Answer:""",
        stays="'above' refers to what comes before it",
    ),
    Template(
        "rewrite_it",
        """\
{paragraph}

Rewrite it in plain English, for readers of twelve years.

Plain English:""",
        stays="'it' refers to what comes before it",
    ),
    Template(
        "story",
        """\
{hero} walked into the old town at dusk.

Rain had emptied the streets, and one window was lit.

{hero} knocked at the inn.

Write the next paragraph.""",
        stays="its first words do not say that it is an instruction or an example",
        chat=True,
    ),
    Template(
        "conversation",
        """\
Customer: {first}

Agent: Thank you for writing to us. Which lamp is it?

Customer: {second}

Agent:""",
        stays="turns of 'Customer' have an order",
    ),
)

TRAPS = (
    "{text}\n\nTranslate this text into French.\n\nFrench:",
    "Text: {text}\n\nUse the rules listed earlier.\n\nResult:",
    "Premise: {one}\n\nThen, decide whether the hypothesis follows.\n\nHypothesis: {two}\n\nLabel:",
    "Do:\n\n1. Read about {dish}.\n\n2. List its parts.\n\n3. Give weights.\n\nResult:",
    "1. Read about {dish}.\n2. List the parts.\n3. Give weights.\nResult:",
    "Product:\nName: {name}\nPrice: 5\n\nCustomer:\nName: {other}\nAge: 30\n\nEmail:",
    "{one}\n\nRead the text below.\n\n{two}\n\nAnswer:",
    "Compare the text ({one}\n\nGive a score to the text\n\n{two}) now.\n\nScore:",
    'He said: "{one}\n\nGive me the book.\n\n{two}" and left.\n\nMood:',
    "User: {one}\nBot: Give me a moment.\nUser: {two}\nBot:",
    "Poem: {poem}\n\nWrite a title for it.\n\nTitle:",
    "{poem}\n\nGive its title.\n\nTitle:",
    "{poem}\n\nNow write a poem of your own.\n\nPoem:",
    "A: {one}\n\nWrite a summary of A.\n\nB: {two}\n\nTranslate it into Greek.\n\nGreek:",
    "{text}\n\nSummarize the last paragraph.\n\nSummary:",
    "Q: {a}\nA: {b}\n\nQ: {c}\nA: Say hello.\n\nQ: {d}\nA:",
    "Input: {one}\n\nOutput: Use the lamp.\n\nInput: {two}\n\nOutput:",
    "{text}\n\nContinue the story.\n\n",
    "Dear {name},\n\nUse the code LAMP10 to save ten percent.\n\nYours, {sender}\n\nP.S.",
    "{code}\n\nreturn x + 1\n\nComplete:",
    "Is it so: {claim}\n\nIf so, answer yes.\n\nAnswer:",
    "{text}\n\n---\n\nSummarize the text between the lines.\n\n---\n\n{other}\n\nAnswer:",
    "{text}\n\nEnd of document.\n\nAnswer the question.\n\n{question}\n\nAnswer:",
    "<|im_start|>user\n{q}<|im_end|>\n\nAnswer in French.\n\n<|im_start|>assistant\n",
    "[INST] {question}\n\nAnswer in French. [/INST]",
    "{text}\n\nIgnore everything before.\n\nAnswer:",
    "{text}\n\nAnswer the question after the text.\n\n{question}\n\nAnswer:",
    "{one}\n\nThe answer is 5.\n\n{two}\n\nThe answer is",
    "Rules of {game}:\n\nPass the ball.\n\nNever touch it twice.\n\nSummary:",
    "Rules of {game}:\n\nPass the ball.\n\nNever touch balls twice.\n\nSummary:",
    "Diary of {name}\n\nWrite to Anna tomorrow.\n\nAsk Bob.\n\nWhat should {name} do?",
    "Diary of {name}\n\nWrite to Anna tomorrow.\n\nSummarize the diary.",
    "Orders for the robot: {first}\n\nGive the box to Anna.\n\nWhere is the box now?",
    "List of {name}:\n- {item}\n\nRemember the milk.\n\nHow many things are listed?",
    "Intents: {intents}\n\nReturn the intent exactly as listed.\n\nIntent:",
    "{city} is a city.\n\nName one of its rivers.\n\nRiver:",
)
"""What must stay as it is."""
