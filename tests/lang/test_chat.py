"""Tables read off what templates render: the roles of a program give the same text as the template
itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jinja2
import pytest

from sgnb.lang import Run
from sgnb.lang.chat import PLAIN, ChatTemplate, Messages, TemplateError, from_render

CHATML = "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}"
DEFAULT_SYSTEM = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    + CHATML
)
STRIPS = CHATML.replace("{{m.content}}", "{{m.content | trim}}")
BRACKETS = (
    "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{m.content}} [/INST]"
    "{% elif m.role == 'assistant' %} {{m.content}}</s>{% else %}{{ refuse() }}{% "
    "endif %}{% endfor %}"
)
MERGES = (
    "<s>{% set sys = namespace(text='') %}{% for m in messages %}"
    "{% if m.role == 'system' %}{% set sys.text = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' %}"
    "{% elif m.role == 'user' %}[INST] {{sys.text}}{% set sys.text = '' %}{{m.content}} [/INST]"
    "{% else %} {{m.content}} </s>{% endif %}{% endfor %}"
)
HEADER = (
    "<bos>{% if messages[0].role == 'system' %}<h>system</h>Date: "
    "now\n\n{{messages[0].content}}<eot>"
    "{% else %}<h>system</h>Date: now\n\n<eot>{% endif %}"
    "{% for m in messages if m.role != 'system' %}<h>{{m.role}}</h>{{m.content}}<eot>{% endfor %}"
)
IGNORES = "{% for m in messages if m.role != 'system' %}({{m.role}}) {{m.content}}\n{% endfor %}"

TALK = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "So."},
]
WITH_SYSTEM = [{"role": "system", "content": "Rhyme."}, *TALK]


def renderer(source: str) -> Callable[[Messages], str]:
    template = jinja2.Template(source, keep_trailing_newline=True)
    return lambda messages: template.render(messages=messages)


def spoken(executor: Any, messages: Messages) -> Any:
    with Run(executor) as run:
        s = run.state()
        for message in messages:
            getattr(s, message["role"])(message["content"])
    assert s.messages() == list(messages)
    return s


@pytest.mark.parametrize(
    "source", [CHATML, DEFAULT_SYSTEM, STRIPS, BRACKETS, MERGES, HEADER, IGNORES]
)
def test_a_program_says_what_the_template_renders(make: Any, source: str) -> None:
    render = renderer(source)
    executor = make(chat=from_render("test", render))
    assert spoken(executor, TALK).text() == render(TALK)


@pytest.mark.parametrize("source", [CHATML, DEFAULT_SYSTEM, STRIPS, MERGES, HEADER])
def test_the_system_role_too(make: Any, source: str) -> None:
    render = renderer(source)
    executor = make(chat=from_render("test", render))
    assert spoken(executor, WITH_SYSTEM).text() == render(WITH_SYSTEM)


@pytest.mark.parametrize("source", [BRACKETS, IGNORES])
def test_a_template_without_a_system_role_gives_its_words_to_the_user(source: str) -> None:
    chat = from_render("test", renderer(source))
    assert chat.roles["system"] == chat.roles["user"]
    assert not chat.merged_system


def test_text_stays_exact_where_a_template_would_strip(make: Any) -> None:
    executor = make(chat=from_render("test", renderer(STRIPS)))
    assert (
        "user\n  Hi \n<|im_end|>"
        in spoken(executor, [{"role": "user", "content": "  Hi \n"}]).text()
    )


@pytest.mark.parametrize(
    "source",
    [
        "{{messages[0].content}}",
        "{% for m in messages %}{{loop.index}}: {{m.content}};{% endfor %}",
    ],
)
def test_a_template_that_is_no_table_is_refused(source: str) -> None:
    with pytest.raises(TemplateError, match="chat template"):
        from_render("test", renderer(source))


def test_a_table_needs_every_role() -> None:
    with pytest.raises(TemplateError, match="'assistant'"):
        ChatTemplate("half", {"user": ("", ""), "system": ("", "")})


def test_plain(make: Any) -> None:
    assert spoken(make(chat=PLAIN), TALK[:2]).text() == "USER: Hi\nASSISTANT: Hello\n"
