"""Execution of ops on a branch: appended texts, calls of the executor, and results as texts and
variables. Same locking rules as `Branch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...events import ChoiceMade, GenerationDone
from ...sampling import SamplingParams
from ...segment import Kind, Segment
from ..chat.reasoning import reasoning_name
from ..chat.tool_turns import call_segments, result_segments
from ..chat.tools import ToolUse
from ..executor import (
    Call,
    Result,
    ScoreCall,
    Scores,
    declares_tools,
    generates_calls,
)
from ..ir import (
    MediaExpr,
    PartSet,
    RoleBegin,
    RoleEnd,
    Text,
    ToolResults,
    UseTools,
    media_segment,
    role_text,
)
from .choices import describe, pick, wants_unconditional
from .editing import CallRecord
from .joining import start_join
from .ops import (
    Assign,
    Choose,
    Fork,
    Generate,
    GenerateCalls,
    Join,
    VarScopeBegin,
    VarScopeEnd,
)
from .part_orders import start_order, take_order

if TYPE_CHECKING:
    from .branch import Branch


def append_text(branch: Branch, op: Text) -> bool:
    branch.add(Segment(op.text, _kind_of(branch, op.kind)))
    return True


def append_media(branch: Branch, op: MediaExpr) -> bool:
    if branch.lookahead is not None:
        branch.lookahead.unused = None  # the model wrote without knowing the item
    branch.add(media_segment(op.item))
    return True


def begin_role(branch: Branch, op: RoleBegin) -> bool:
    branch.add(_role_mark(branch, op, branch.messages[-1]["role"] if branch.messages else None))
    branch.role_at = len(branch.text)
    return True


def end_role(branch: Branch, op: RoleEnd) -> bool:
    branch.messages.append({"role": op.role, "content": branch.text[branch.role_at :]})
    branch.add(_role_mark(branch, op, None))
    return True


def _role_mark(branch: Branch, op: RoleBegin | RoleEnd, previous: str | None) -> Segment:
    mark = role_text(branch.chat, op, previous)
    if mark == role_text(branch.program.executor.chat, op, previous):
        return mark
    # Text with tool declarations, which other templates cannot replace.
    return Segment(mark.text)


def use_tools(branch: Branch, op: UseTools) -> bool:
    if declares_tools(branch.program.executor):
        branch.tools = op.tools
    else:
        branch.chat = branch.program.executor.chat.declare(op.tools)
    return True


def add_results(branch: Branch, op: ToolResults) -> bool:
    """Append tool results. Results are data even if the program recognizes special tokens in
    data."""
    if declares_tools(branch.program.executor):
        begin, end = RoleBegin("user"), RoleEnd("user")
        previous = branch.messages[-1]["role"] if branch.messages else None
        content = result_segments(op.calls, op.texts)
        branch.add(_role_mark(branch, begin, previous), *content, _role_mark(branch, end, None))
    else:
        user = branch.chat.roles["user"]
        for prefix, result in branch.chat.tools.results(user, op.calls, op.texts):
            branch.add(Segment(prefix), Segment(result, "data"))
    branch.messages += [{"role": "tool", "content": text} for text in op.texts]
    return True


def assign(branch: Branch, op: Assign) -> bool:
    branch.set(op.name, op.value)
    return True


def begin_var_scope(branch: Branch, op: VarScopeBegin) -> bool:
    branch.var_scopes.append(len(branch.text))
    return True


def end_var_scope(branch: Branch, op: VarScopeEnd) -> bool:
    branch.set(op.name, branch.text[branch.var_scopes.pop() :])
    return True


def generate(branch: Branch, op: Generate) -> bool:
    branch.op_at = len(branch.text)
    _queue_call(branch, op, op.params)
    return False


def generate_calls(branch: Branch, op: GenerateCalls) -> bool:
    branch.op_at = len(branch.text)
    if generates_calls(branch.program.executor):
        _queue_call(branch, op, replace(op.params, n=1), op.use)
        return False
    special_tokens = branch.program.executor.special_tokens
    branch.steps = op.use.write(op.params, branch.chat.tools, special_tokens)
    return _next_step(branch, op, None)


def _next_step(branch: Branch, op: GenerateCalls, result: Result | None) -> bool:
    """Advance to the next generation of a call sequence. Returns True after the last."""
    assert branch.steps is not None
    try:
        step = branch.steps.send(None if result is None else (result.texts[0], result.meta[0]))
        while isinstance(step, Segment):
            branch.add(step)
            step = next(branch.steps)
    except StopIteration as end:
        branch.steps = None
        value, branch.meta[op.name] = end.value
        branch.set(op.name, value)
        return True
    _queue_call(branch, op, step)
    return False


def _queue_call(
    branch: Branch, op: Generate, params: SamplingParams, tool_use: ToolUse | None = None
) -> None:
    run = branch.program.run
    prompt, segments = branch.prompt(op.backend)
    stream = run.stream or op.timeout is not None  # a timeout needs the partial text
    call = Call(
        prompt=prompt,
        params=params,
        run=run.id,
        branch=branch.id,
        name=op.name,
        stream=stream,
        location=op.location,
        segments=segments,
        forked=branch.num_forked_segments,
        lookahead=branch.lookahead,
        tools=branch.tools,
        tool_use=tool_use,
    )
    branch.calls.append(CallRecord.of(branch, op, params))
    branch.program.outbox.append((branch, op, call))


def choose(branch: Branch, op: Choose) -> bool:
    select = op.select
    unconditional = wants_unconditional(select.method)
    prompt, segments = branch.prompt(select.backend)
    call = ScoreCall(
        prompt=prompt,
        choices=select.choices,
        unconditional=unconditional,
        run=branch.program.run.id,
        branch=branch.id,
        name=op.name,
        location=select.location,
        segments=segments,
        kind=_kind_of(branch, select.kind),
        lookahead=branch.lookahead,
    )
    branch.calls.append(CallRecord.of(branch, op, select.choices))
    branch.program.outbox.append((branch, op, call))
    return False


def fork(branch: Branch, op: Fork) -> bool:
    for child in op.children:
        child.begin()
    return True


def take_texts(branch: Branch, op: Generate, result: Result) -> bool:
    several, run = op.params.n > 1, branch.program.run
    texts, segments = list(result.texts), _kept_segments(branch, result)
    if op.reasoning is not None:
        thoughts, texts = map(list, zip(*map(op.reasoning.split, texts), strict=True))
        branch.set(reasoning_name(op.name), thoughts if several else thoughts[0])
        if texts[0] != result.texts[0]:
            cut = Segment("", "output"), Segment(texts[0], "data")
            segments = cut if segments and run.keep_tokens else ()
    branch.set(op.name, texts if several else texts[0])
    branch.meta[op.name] = list(result.meta) if several else result.meta[0]
    append_result(branch, op, result, texts[0], segments)
    return True


def _kept_segments(branch: Branch, result: Result) -> tuple[Segment, ...]:
    """Return the segments of a result; without `keep_tokens`, their text as data."""
    if branch.program.run.keep_tokens or not result.segments:
        return result.segments
    return (Segment("".join(segment.text for segment in result.segments), "data"),)


def take_step(branch: Branch, op: GenerateCalls, result: Result) -> bool:
    if branch.steps is None:
        return _take_calls(branch, op, result)
    segments = result.segments if branch.program.run.keep_tokens else ()
    append_result(branch, op, result, result.texts[0], segments)
    return _next_step(branch, op, result)


def _take_calls(branch: Branch, op: GenerateCalls, result: Result) -> bool:
    """Process the answer of an executor that generates calls: text, or calls after text."""
    segments = call_segments(result.texts[0], result.calls, branch.chat.tools)
    text = "".join(segment.text for segment in segments)
    append_result(branch, op, result, text, segments)

    value: Any = list(result.calls) if op.use.parallel else next(iter(result.calls), None)
    branch.set(op.name, value or text)
    branch.meta[op.name] = result.meta[0]
    return True


def append_result(
    branch: Branch, op: Generate, result: Result, text: str, segments: tuple[Segment, ...]
) -> None:
    """Append the `text` of a result, as `segments` if the tokens are known."""
    if op.backend is not None:
        segments = tuple(
            s._replace(origin=op.backend) if s.kind == "output" else s for s in segments
        )
    _append_generated(branch, segments or (Segment(text, "data"),), result.meta[0])
    branch.program.tainted.add(result.texts)
    branch.emit(GenerationDone(branch.program.run.id, branch.id, op.name, text, result.recorded))


def _append_generated(branch: Branch, segments: Iterable[Segment], meta: dict[str, Any]) -> None:
    begin = len(branch.text)
    branch.extend(segments)
    branch.generated.append((begin, len(branch.text), meta))


def take_scores(branch: Branch, op: Choose, scores: Scores) -> bool:
    select = op.select
    values, index = scores.values, scores.chosen
    if index is None:
        index = pick(values, select.temperature, select.seed)

    chosen = select.choices[index]
    branch.set(op.name, chosen)
    branch.meta[op.name] = {
        **describe(select, scores),
        **scores.meta,
        "choices": select.choices,
        "scores": values,
        "choice_scores": scores.choices,
        "chosen": chosen,
    }
    segment = Segment(chosen, _kind_of(branch, select.kind))
    _append_generated(branch, [segment], branch.meta[op.name])
    place = branch.program.run.id, branch.id, op.name
    branch.emit(ChoiceMade(*place, select.choices, values, chosen, scores.recorded))
    return True


def _kind_of(branch: Branch, kind: Kind | None) -> Kind:
    return "raw" if branch.program.run.special_tokens else kind or "raw"


START: dict[type, Callable[[Branch, Any], bool]] = {
    Text: append_text,
    MediaExpr: append_media,
    PartSet: start_order,
    RoleBegin: begin_role,
    RoleEnd: end_role,
    UseTools: use_tools,
    ToolResults: add_results,
    Assign: assign,
    VarScopeBegin: begin_var_scope,
    VarScopeEnd: end_var_scope,
    Generate: generate,
    GenerateCalls: generate_calls,
    Choose: choose,
    Fork: fork,
    Join: start_join,
}
"""Functions that start an op. Return True if the op is complete."""

FINISH: dict[type, Callable[[Branch, Any, Any], bool]] = {
    Generate: take_texts,
    GenerateCalls: take_step,
    Choose: take_scores,
    PartSet: take_order,
}
"""Functions that process the result of an op's call. Return True if the op is complete."""
