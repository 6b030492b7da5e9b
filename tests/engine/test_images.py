"""Images on an engine with a small random model: cache, encoder, scores, failures, folders."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sgnb
from benchmarks.multimodal import NEW, as_media, cases, template
from sgnb.engine.engine import Engine
from sgnb.engine.model import decoder as decoder_module
from sgnb.engine.model import item_encoder
from sgnb.engine.model.item_encoder import ItemEncoder
from sgnb.engine.model.text_decoder import text_decoder
from sgnb.errors import (
    EngineError,
    MediaError,
    ModelError,
    RequestError,
    SgnbError,
    SgnbWarning,
)
from sgnb.media import Audio, Image
from sgnb.segment import Segment

from ..multimodal_models import multimodal_model
from ..multimodal_models.items import picture


def built(kind: str) -> tuple[Any, Any]:
    model, processor = multimodal_model(kind)
    processor.chat_template = template(processor)
    return model, processor


@pytest.fixture(scope="module")
def llava() -> tuple[Any, Any]:
    return built("llava")


@pytest.fixture
def engine(llava: tuple[Any, Any]) -> Iterator[Engine]:
    model, processor = llava
    with Engine(model, processor=processor, device="cpu", max_step_tokens=24) as engine:
        yield engine


def image(seed: int) -> Any:
    return as_media(picture(seed), "image")


def prompt(*parts: Any) -> list[Segment]:
    return [Segment(p) if isinstance(p, str) else Segment("", "media", item=p) for p in parts]


def answer(engine: Engine, *parts: Any, **options: Any) -> Any:
    [ids] = engine.encode([prompt(*parts)])
    defaults = {"temperature": 0, "max_new_tokens": NEW, "ignore_eos": True}
    return engine.generate(ids, defaults | options)


def test_a_second_question_computes_its_text_alone(engine: Engine) -> None:
    cat = image(1)
    answer(engine, "see ", cat, " and tell")
    before = engine.stats()
    output = answer(engine, "see ", image(1), " or count")
    after = engine.stats()
    assert after["encoded_items"] == before["encoded_items"] == 1
    assert output.meta_info["cached_tokens"] == len(engine.encode([prompt("see ", cat)])[0])
    assert answer(engine, "see ", image(2), " or count").token_ids != output.token_ids


def test_options_of_the_processor_belong_to_the_key() -> None:
    """Equal pixels with other options are another item; with the first options, the first item."""
    model, processor = built("llava")
    part = processor.image_processor
    mean = part.image_mean
    with Engine(model, processor=processor, device="cpu") as engine:
        first, answers = [], []
        for changed in (mean, [0.9, 0.1, 0.5], mean):
            part.image_mean = changed
            [ids] = engine.encode([prompt("see ", image(1))])
            first.append(ids)
            answers.append(answer(engine, image(1), " what").token_ids)
        assert first[0] == first[2] != first[1] and len(first[0]) == len(first[1])
        assert answers[0] == answers[2] != answers[1]
        assert engine.stats()["encoded_items"] == 2


def test_memory_of_an_encoder_call_per_token(
    llava: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, processor = llava
    runs: list[int] = []

    def peak(device: torch.device, run: Any) -> int:
        run()
        runs.append(1)
        return 3_700

    monkeypatch.setattr(item_encoder, "peak_bytes", peak)
    with Engine(model, processor=processor, device="cpu"):
        encoder = ItemEncoder(model, text_decoder(model), processor)
        count = encoder.process(item_encoder.large_item("image")).num_tokens
        assert encoder.token_bytes == encoder.token_bytes == 3_700 / count
        assert runs == [1]
        encoder.refused = dict.fromkeys(item_encoder.KINDS, "not")
        del encoder.token_bytes
        assert encoder.token_bytes == 0
        encoder.substitution.remove()


def test_rows_outlive_their_keys_and_values(llava: tuple[Any, Any]) -> None:
    model, processor = llava
    options = {"processor": processor, "device": "cpu", "prefix_cache": False}
    with Engine(model, **options) as engine:
        cat, outputs = image(1), []
        for _ in range(2):
            outputs.append(answer(engine, cat, " what").token_ids)
        statistics = engine.stats()
        assert statistics["encoded_items"] == statistics["encoder_hits"] == 1
        assert engine.flush_cache() == 0 and engine.stats()["encoder_bytes"] == 0
        outputs.append(answer(engine, cat, " what").token_ids)
        assert engine.stats()["encoded_items"] == 2
    assert outputs[0] == outputs[1] == outputs[2]


def test_changed_weights_drop_the_rows() -> None:
    model, processor = built("llava")
    with Engine(model, processor=processor, device="cpu") as engine:
        cat = image(1)
        before = answer(engine, cat, " what").token_ids
        with torch.no_grad():
            model.model.multi_modal_projector.linear_2.weight.mul_(-3)
        with pytest.warns(UserWarning, match="weights of Llava"):
            after = answer(engine, cat, " what").token_ids
        assert engine.stats()["encoded_items"] == 2 and after != before
    with Engine(model, processor=processor, device="cpu") as fresh:
        assert answer(fresh, cat, " what").token_ids == after


def test_scores_and_penalties_beside_an_image(engine: Engine) -> None:
    """Tokens of an image have no probability, and count for no penalty."""
    scores = {"return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 2}
    plain = answer(engine, "see ", image(1), " and", **scores)
    [ids] = engine.encode([prompt("see ", image(1), " and")])
    columns = plain.prompt_logprobs, plain.prompt_top_logprobs
    for token, value, top in zip(ids[1:], *columns, strict=True):
        is_text = token < engine.vocab_size
        assert (value is not None) == is_text and len(top) == 2 * is_text
    rows = plain.meta_info["input_token_logprobs"]
    assert [row[0] is None for row in rows[1:]] == [token >= engine.vocab_size for token in ids[1:]]
    assert max(token for token in plain.token_ids) < engine.vocab_size
    penalized = answer(engine, "see ", image(1), " and", repetition_penalty=1.5)
    assert len(penalized.token_ids) == NEW


def test_programs_ask_about_images(engine: Engine) -> None:
    @sgnb.function
    def about(s: Any, first: Any, second: Any) -> None:
        s += "see " + sgnb.image(first) + " and " + sgnb.image(second)
        forks = s.fork(3)
        for number, fork in enumerate(forks):
            fork += f" question {number}: " + sgnb.gen("a", max_tokens=3, ignore_eos=True)
        forks.join("gather_variable")
        s += " so " + sgnb.select("b", ["one", "two"])

    pixels = np.array(picture(1))
    state = about.run(pixels, np.array(picture(2)), backend=engine, temperature=0)
    assert "[image 90×70]" in state.text() and len(state["a"]) == 3
    assert engine.stats()["encoded_items"] == 2
    again = about.run(pixels.copy(), np.array(picture(2)), backend=engine, temperature=0)
    assert (again["a"], again["b"]) == (state["a"], state["b"])
    assert engine.stats()["encoded_items"] == 2


def test_an_image_that_cannot_be_encoded_fails_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = engine.items.encoder  # type: ignore[union-attr]
    good, bad = image(1), image(2)
    [bad_ids] = engine.encode([prompt("see ", bad)])
    encode = type(encoder).encode

    def failing(self: Any, items: Any) -> None:
        if any(item.first_id == max(bad_ids) + 1 - item.count for item in items):
            raise RuntimeError("no such patch")
        encode(self, items)

    monkeypatch.setattr(type(encoder), "encode", failing)
    prompts = engine.encode([prompt("see ", good, " and"), prompt("see ", bad, " and")])
    with pytest.raises(EngineError, match="cannot be encoded: RuntimeError: no such patch"):
        engine.generate(prompts, temperature=0, max_new_tokens=NEW)
    monkeypatch.undo()
    assert len(answer(engine, "see ", bad, " and").token_ids) == NEW, "the next call works"


def test_what_a_model_does_not_take(engine: Engine) -> None:
    assert engine.modalities == {"image"}
    with pytest.raises(SgnbError, match="takes no audio") as caught:
        engine.encode([prompt(Audio(np.zeros(800, np.float32), 16_000))])
    assert isinstance(caught.value, (MediaError, RequestError))
    with (
        Engine("tiny", device="cpu") as text,
        pytest.raises(RequestError, match="takes text only"),
    ):
        text.encode([prompt("see ", image(1))])


def test_image_ids_of_another_engine_are_refused(engine: Engine) -> None:
    with pytest.raises(RequestError, match="outside the vocabulary"):
        engine.generate([engine.vocab_size, engine.vocab_size + 1], max_new_tokens=1)


def test_a_refused_kind_leaves_the_model_usable() -> None:
    """HunYuan's positions of an image depend on the images before, so its images are refused."""
    model, processor = built("hunyuan_vl")
    with Engine(model, processor=processor, device="cpu") as engine:
        assert engine.modalities == frozenset()
        assert "from the model's own logits" in engine.refused_modalities["image"]
        assert len(answer(engine, "no picture").token_ids) == NEW
        with pytest.raises(MediaError, match="takes no image: its logits differ by"):
            answer(engine, image(1), " what")


def test_a_folder_with_its_processor(llava: tuple[Any, Any], tmp_path: Path) -> None:
    model, processor = llava
    expected = cases(*built("llava"), "image")
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    with Engine(tmp_path, device="cpu") as engine:
        for case in expected:
            [ids] = engine.encode([case.prompt])
            output = engine.generate(ids, temperature=0, max_new_tokens=NEW, ignore_eos=True)
            assert output.token_ids == case.tokens


def test_an_aborted_request_leaves_its_image(engine: Engine) -> None:
    [ids] = engine.encode([prompt("see ", cat := image(3), " and")])
    [request] = engine.submit([ids], [sgnb.SamplingParams(max_new_tokens=NEW)], [lambda _: None])
    engine.abort(request)
    assert isinstance(cat, Image) and len(answer(engine, "see ", cat, " and").token_ids) == NEW


@pytest.mark.slow
def test_two_engines_on_one_model(llava: tuple[Any, Any]) -> None:
    """Engines on several threads: the one with images never changes the texts of the other."""
    model, processor = llava
    options = {"processor": processor, "device": "cpu", "prefix_cache": False}
    with Engine(model, **options) as seeing, Engine(model, **options) as reading:
        expected = answer(reading, "the answer is ").token_ids
        images = [image(seed) for seed in range(4)]
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                for item in images:
                    answer(seeing, "see ", item, " and tell")
                seeing.flush_cache()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            found = [answer(reading, "the answer is ").token_ids for _ in range(40)]
        finally:
            done.set()
            thread.join()
    assert found == [expected] * 40


def test_a_constraint_directly_behind_an_image(engine: Engine) -> None:
    @sgnb.function
    def choose(s: Any, picture: Any) -> None:
        s += sgnb.image(picture) + sgnb.gen("a", regex="yes|no")

    state = choose.run(np.array(picture(1)), backend=engine)
    assert state["a"] in ("yes", "no")


def test_a_processor_that_raises(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = engine.items.encoder  # type: ignore[union-attr]

    def failing(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("no height")

    monkeypatch.setattr(encoder, "run_processor", failing)
    with pytest.raises(MediaError, match="refuses image 90×70: no height"):
        engine.encode([prompt("see ", image(7))])
    monkeypatch.undo()
    assert answer(engine, "see ", image(7)).token_ids


def test_what_is_no_processor(llava: tuple[Any, Any]) -> None:
    with pytest.raises(ModelError, match="'x' is not a processor"):
        Engine(llava[0], processor="x", device="cpu")


def test_inputs_of_a_forgotten_image_are_freed(engine: Engine) -> None:
    cat = image(9)
    [ids] = engine.encode([prompt("see ", cat)])
    item = engine.items._at(ids[-1])  # type: ignore[union-attr]
    assert item.inputs is not None
    del cat
    assert item.inputs is None


def test_a_load_that_fails_leaves_no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = built("llava")

    def failing(*_: Any) -> Any:
        raise ModelError("no such layers", "give another model")

    monkeypatch.setattr(decoder_module, "_set_attention", failing)
    with pytest.raises(ModelError, match="no such layers"):
        Engine(model, processor=processor, device="cpu")
    assert not model.get_decoder()._forward_pre_hooks


def test_a_processor_that_cannot_be_read_leaves_text(
    llava: tuple[Any, Any], tmp_path: Path
) -> None:
    model, processor = llava
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    (tmp_path / "processor_config.json").write_text('{"processor_class": 7}')
    with pytest.warns(SgnbWarning, match="takes text only, because its processor"):
        engine = Engine(tmp_path, device="cpu")
    with engine:
        assert engine.modalities == frozenset() and answer(engine, "no picture").token_ids
        with pytest.raises(RequestError, match="takes text only"):
            answer(engine, image(1))


def test_an_engine_without_the_processor_of_another(llava: tuple[Any, Any]) -> None:
    model, processor = llava
    with (
        Engine(model, tokenizer=processor.tokenizer, device="cpu"),
        pytest.raises(ModelError, match="an engine without this processor"),
    ):
        Engine(model, processor=processor, device="cpu")


def test_nested_images_next_to_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of images in a list stays after the check of videos."""
    model, processor = built("qwen2_5_vl")
    original = ItemEncoder.run_processor

    def needs_nesting(self: ItemEncoder, text: str, contents: Any, **options: Any) -> Any:
        if any(isinstance(content, Image) for content in contents) and not self.nests_images:
            raise ValueError("images must be nested")
        return original(self, text, contents, **options)

    monkeypatch.setattr(ItemEncoder, "run_processor", needs_nesting)
    with Engine(model, processor=processor, device="cpu") as engine:
        assert engine.modalities == {"image", "video"} and answer(engine, image(1)).token_ids
