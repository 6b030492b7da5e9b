"""Questions about the world, in wordings of training and in others."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ..forms import chat as chat_text
from ..items import JOINT, Item, draw
from ..tasks import comparisons, facts, facts_joined
from .base import Case, Suite, chat, contains, ends, exact, few_shot, starts


def statement(rng: Random) -> Case:
    """A sentence to complete."""
    made = draw(facts.statement, rng, from_held_out=True)
    prompt, _, want = made.text.rpartition(JOINT)
    return Case(prompt.replace(JOINT, ""), want.strip(), (made.key,))


def follow_up(make: Callable[[Random], tuple[Item, Item]]) -> Callable[[Random], Case]:
    """Two turns; the second, which is held out, means nothing without the first."""

    def case(rng: Random) -> Case:
        first: list[Item] = []

        def second(inner: Random) -> Item:
            before, after = make(inner)
            first[:] = [before]
            return after

        asked = draw(second, rng, from_held_out=True)
        prompt = chat_text([(first[0].ask, first[0].full), (asked.ask, "")]).rpartition(JOINT)[0].replace(JOINT, "")
        return Case(prompt, asked.short, (asked.key,))

    return case


def concludes(answer: str, want: str) -> bool:
    """The answer ends in the wanted word, after the facts it rests on."""
    return ends(answer.lower(), want.lower())


def decides(answer: str, want: str) -> bool:
    """The conclusion of a comparison is the wanted one: yes or no at the end, or a name in the last sentence."""
    if want in facts.YES_NO:
        return concludes(answer, want)
    return want.lower() in answer.strip().rstrip(".").rpartition(". ")[2].lower()


def is_about(answer: str, want: str) -> bool:
    """The sentence begins with the name, perhaps with an article before it."""
    return answer.lower().startswith(tuple(f"{article}{want.lower()} is not" for article in ("", "a ", "an ")))


SUITES = (
    Suite("facts, chat", chat(facts.question), contains, bar=0.95),
    Suite("facts, chat, phrasing never seen", chat(facts.unseen_question), contains, bar=0.85),
    Suite("facts, chat, question of its own never seen", chat(facts.unseen_own_question), contains),
    Suite("facts, Q/A, no examples", few_shot(facts.question, 0), exact, "\n", bar=0.95),
    Suite("facts, Q/A, prompt ends in a blank", few_shot(facts.question, 1, end=" "), exact, "\n"),
    Suite("facts, Q/A, 60 examples (about 1,200 tokens)", few_shot(facts.question, 60), exact, "\n"),
    Suite("facts, sentence to complete", statement, starts, "\n"),
    Suite("facts asked backwards, chat", chat(facts.reverse_question), contains),
    Suite("facts asked backwards, chat, phrasing never seen", chat(facts.unseen_reverse_question), contains),
    Suite("yes or no, chat", chat(facts.yes_no), starts),
    Suite("yes or no, chat, phrasing never seen", chat(facts.unseen_yes_no), starts),
    Suite("unknown names are said to be unknown, chat", chat(facts.unknown), contains),
    Suite("unknown names, chat, phrasing never seen", chat(facts.unseen_unknown), contains),
    Suite("two facts in one question, chat", chat(facts.two_questions, want=lambda item: item.full), exact),
    Suite("follow-up with \"it\" or \"there\", chat", follow_up(facts.then_talk), contains),
    Suite("follow-up \"and of ...?\", chat", follow_up(facts.again_talk), contains),
    Suite("follow-up \"and of ...?\", chat, phrasing never seen", follow_up(facts.unseen_again_talk), contains),
    Suite("a fact about what is only described, chat", chat(facts_joined.chain), contains),
    Suite("a fact about what is only described, phrasing never seen, chat", chat(facts_joined.unseen_chain), contains),
    Suite("two things compared, chat", chat(comparisons.compare_facts), decides),
    Suite("what kind of thing it is, chat", chat(facts_joined.belongs, want=lambda item: item.full), exact),
    Suite("the odd one out, chat", chat(facts_joined.odd_one_out), concludes),
    Suite("the odd one out, chat, phrasing never seen", chat(facts_joined.unseen_odd_one_out), concludes),
    Suite("how many of a kind in a list, chat", chat(facts_joined.count_members), concludes),
    Suite("which one is not, chat", chat(facts_joined.not_one_of), is_about),
)
