"""SGLang's module paths, with `sgnb` instead of `sglang`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sgnb
from sgnb.errors import OptionError
from sgnb.lang import function, gen, user

PATHS = {
    "api": "set_default_backend function gen select Engine Runtime",
    "global_config": "global_config",
    "lang.api": "Engine Runtime assistant assistant_begin assistant_end flush_cache function gen"
    " gen_int gen_string get_server_info image select separate_reasoning set_default_backend"
    " system system_begin system_end user user_begin user_end video",
    "lang.backend.anthropic": "Anthropic",
    "lang.backend.base_backend": "BaseBackend",
    "lang.backend.litellm": "LiteLLM",
    "lang.backend.openai": "OpenAI",
    "lang.backend.runtime_endpoint": "Runtime RuntimeEndpoint",
    "lang.backend.vertexai": "VertexAI",
    "lang.chat_template": "ChatTemplate get_chat_template get_chat_template_by_model_path",
    "lang.choices": "ChoicesDecision ChoicesSamplingMethod greedy_token_selection"
    " token_length_normalized unconditional_likelihood_normalized",
    "lang.interpreter": "ProgramState ProgramStateGroup",
    "lang.ir": "REGEX_BOOL REGEX_FLOAT REGEX_INT REGEX_STR SglConstantText SglExpr SglExprList"
    " SglFunction SglGen SglRoleBegin SglRoleEnd SglSamplingParams SglSelect",
    "lang.tracer": "trace_program",
    "test.doc_patch": "launch_server_cmd",
    "test.test_utils": "CustomTestCase add_common_sglang_args_and_parse select_sglang_backend",
    "utils": "async_stream_and_merge download_and_cache_file dump_state_text launch_server_cmd"
    " normalize_base_url print_highlight read_jsonl stream_and_merge terminate_process"
    " wait_for_server",
}
"""Module of SGLang -> names imported by tests, examples, documentation and programs of users."""


@pytest.mark.parametrize("path", PATHS)
def test_a_path_has_its_names(path: str) -> None:
    for name in PATHS[path].split():
        found: dict[str, Any] = {}
        exec(f"from sgnb.{path} import {name}", found)
        public = getattr(sgnb, name, found[name])
        assert found[name] is public or found[name].__qualname__ == public.__qualname__ == name
    module = importlib.import_module(f"sgnb.{path}")
    with pytest.raises(AttributeError):
        _ = module.no_such_name


def test_the_settings_keep_their_name() -> None:
    code = "import sgnb.global_config as c; import sgnb; sgnb.global_config.verbosity;"
    code += "from sgnb.global_config import global_config as g; print(g is c is sgnb.global_config)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "True\n"


def test_rows_and_texts(make: Any, tmp_path: Path) -> None:
    utils: Any = importlib.import_module("sgnb.utils")
    rows = tmp_path / "rows.jsonl"
    rows.write_text('# two rows\n{"q": "ä"}\n[1]\n', encoding="utf-8")
    assert list(utils.read_jsonl(str(rows))) == [{"q": "ä"}, [1]]

    @function
    def ask(s: Any) -> None:
        s += "Q " + gen("a")

    texts = tmp_path / "texts"
    utils.dump_state_text(str(texts), [ask.run(backend=make("yes")), "no"])
    assert texts.read_text().split("=" * 80)[1].split("\n")[-2:] == ["no", ""]
    assert "\nQ yes\n" in texts.read_text()
    assert utils.download_and_cache_file("https://host/rows", str(rows)) == str(rows)
    with pytest.raises(OptionError, match="is not an address"):
        utils.download_and_cache_file("file:///etc/passwd", str(tmp_path / "other"))
    with pytest.raises(OptionError, match="starts no server"):
        utils.launch_server_cmd("python -m sglang.launch_server")


def test_streams_of_an_engine() -> None:
    utils: Any = importlib.import_module("sgnb.utils")
    params = {"max_new_tokens": 5, "temperature": 0}

    async def pieces(engine: Any) -> list[str]:
        stream = utils.async_stream_and_merge(engine, "Hello", params)
        return [piece async for piece in stream]

    with sgnb.Engine("tiny") as engine:
        text = utils.stream_and_merge(engine, "Hello", params)
        assert text == engine.generate("Hello", params).text
        assert "".join(asyncio.run(pieces(engine))) == text


def test_the_command_line_of_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    utils: Any = importlib.import_module("sgnb.test.test_utils")
    monkeypatch.setattr(sys, "argv", ["bench", "--port", "8000", "--questions", "3"])
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int)
    args = utils.add_common_sglang_args_and_parse(parser)
    assert (args.questions, args.port, args.parallel, args.backend) == (3, 8000, 64, "srt")
    args.backend = "other"
    with pytest.raises(OptionError, match="'other' is not supported"):
        utils.select_sglang_backend(args)


def test_templates_and_traces_by_their_paths(make: Any) -> None:
    templates: Any = importlib.import_module("sgnb.lang.chat_template")
    with pytest.warns(UserWarning, match="'llama-2-chat' has no effect"):
        templates.get_chat_template("llama-2-chat")

    @function
    def ask(s: Any, question: str) -> None:
        s += user(question) + gen("a")

    tracer: Any = importlib.import_module("sgnb.lang.tracer")
    graph = tracer.trace_program(ask, {"question": "Well?"}, make())
    assert (
        graph.last_node.print_graph_dfs() == ask.trace(question="Well?").last_node.print_graph_dfs()
    )
