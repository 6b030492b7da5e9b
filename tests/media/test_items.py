"""Digests and immutability of media items."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sgnb.media import Audio, Image, MediaItem, Video, from_plain, to_plain, wav

sides = st.integers(1, 9)
pixels = st.tuples(sides, sides).flatmap(
    lambda size: arrays.arrays(np.uint8, (*size, 3), elements=st.integers(0, 255))
)
samples = arrays.arrays(
    np.float32, st.integers(1, 30), elements=st.floats(-1, 1, width=32, allow_subnormal=False)
)


def video_of(array: np.ndarray) -> Video:
    return Video(np.stack([array, array[::-1]]), [0.0, 0.5])


@given(pixels)
def test_equal_content_has_an_equal_digest(array: np.ndarray) -> None:
    spread = np.zeros((*array.shape[:2], 6), np.uint8)
    spread[..., ::2] = array
    for make in (Image, video_of):
        item, other = make(array), make(spread[..., ::2])  # another memory layout
        assert item == other and item.digest == other.digest and hash(item) == hash(other)
        assert len({item, other, copy.deepcopy(item), pickle.loads(pickle.dumps(item))}) == 1


@given(pixels, st.data())
def test_a_changed_pixel_changes_the_digest(array: np.ndarray, data: st.DataObject) -> None:
    place = tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)
    changed = array.copy()
    changed[place] ^= data.draw(st.sampled_from([1, 2, 128, 255]))
    assert Image(array) != Image(changed)
    assert video_of(array) != video_of(changed)


@given(pixels)
def test_the_same_bytes_in_another_size_differ(array: np.ndarray) -> None:
    height, width, _ = array.shape
    sizes = [(h, height * width // h) for h in range(1, height * width + 1)
             if height * width % h == 0]  # fmt: skip
    items = {Image(array.reshape(*size, 3)) for size in sizes}
    assert len(items) == len(sizes)
    frames = {Video(array.reshape(1, *size, 3), [0.0]) for size in sizes}
    assert len(items | frames) == 2 * len(sizes), "an image is not a video"


@given(samples, st.integers(1, 96_000))
def test_a_rate_and_a_sample_change_the_digest(array: np.ndarray, rate: int) -> None:
    audio = Audio(array, rate)
    assert audio == Audio(array.copy(), rate)
    assert audio != Audio(array, rate + 1)
    assert audio != Audio(np.append(array, np.float32(0)), rate)
    assert audio != Audio(array + np.float32(2), rate)


def test_times_are_part_of_a_video() -> None:
    frames = np.zeros((2, 3, 4, 3), np.uint8)
    assert Video(frames, [0, 1]) == Video(frames, [0.0, 1.0])
    assert Video(frames, [0, 1]) != Video(frames, [0, 2])


ITEMS = [
    Image(np.arange(60, dtype=np.uint8).reshape(4, 5, 3)),
    Video(np.arange(120, dtype=np.uint8).reshape(2, 4, 5, 3), [0, 0.1]),
    Audio(np.linspace(-1, 1, 800, dtype=np.float32), 16_000),
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.kind)
def test_items_are_immutable(item: Any) -> None:
    names = {"image": ["pixels"], "video": ["frames", "times"], "audio": ["samples"]}[item.kind]
    for name in names:
        array = getattr(item, name)
        assert not array.flags.writeable
        with pytest.raises(ValueError):
            array.flags.writeable = True
        with pytest.raises(AttributeError):
            setattr(item, name, array)
        with pytest.raises(AttributeError):
            delattr(item, name)
    with pytest.raises(AttributeError):
        item.label = "another"


def test_the_source_of_an_item_may_change_later() -> None:
    array = np.zeros((2, 2, 3), np.uint8)
    item = Image(array)
    array[:] = 9
    assert item.digest == Image(np.zeros((2, 2, 3), np.uint8)).digest
    assert not item.pixels.any()


def test_labels() -> None:
    labels = [item.label for item in ITEMS]
    assert labels == ["image 5×4", "video 2 frames 5×4", "audio 0.1 s"]
    assert ITEMS[0].digest.hex() in repr(ITEMS[0]), "the whole digest, which keys of rows contain"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Image(np.zeros((2, 2), np.uint8)),
        lambda: Image(np.zeros((2, 2, 4), np.uint8)),
        lambda: Image(np.zeros((2, 2, 3), np.float32)),
        lambda: Image(np.zeros((0, 2, 3), np.uint8)),
        lambda: Video(np.zeros((2, 2, 2, 3), np.uint8), [0]),
        lambda: Video(np.zeros((1, 2, 2, 3), np.uint8), [np.nan]),
        lambda: Audio(np.zeros(3, np.float64), 8000),
        lambda: Audio(np.zeros((3, 1), np.float32), 8000),
        lambda: Audio(np.zeros(3, np.float32), 0),
        lambda: Audio(np.zeros(3, np.float32), 0.5),
    ],
)
def test_wrong_arrays_are_refused(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


@settings(max_examples=50)
@given(pixels, samples, st.integers(1, 96_000))
def test_saved_items_are_equal(array: np.ndarray, sound: np.ndarray, rate: int) -> None:
    for item in (Image(array), video_of(array), Audio(sound, rate)):
        saved = to_plain(item)
        assert from_plain(saved) == item
        assert type(from_plain(saved)) is type(item)


def damaged(item: MediaItem, **changes: Any) -> dict[str, Any]:
    return to_plain(item) | changes


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (None, "without 'kind'"),
        ({"kind": "image"}, "without 'kind'"),
        (damaged(ITEMS[0], kind="text"), "not a kind"),
        (damaged(ITEMS[0], kind=["image"]), "not a kind"),
        (damaged(ITEMS[0], digest="00"), "digest"),
        (damaged(ITEMS[0], content=to_plain(ITEMS[2])["content"]), "not an image"),
        (damaged(ITEMS[0], content=7), "not base64"),
        (damaged(ITEMS[0], content="@@"), "base64"),
        (damaged(ITEMS[0], content=""), "empty"),
        (damaged(ITEMS[1], content={"frames": [], "times": []}), "no frames"),
        (damaged(ITEMS[1], content={"frames": [], "times": [10**400]}), "frames with times"),
        (damaged(ITEMS[1], content=[]), "frames with times"),
        (damaged(ITEMS[2], content=to_plain(ITEMS[0])["content"]), "not a sound"),
    ],
)
def test_damaged_saved_items(saved: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_plain(saved)


def test_a_wav_of_16_bits() -> None:
    import io
    import wave

    audio = Audio(np.array([0, 1, -1, 0.5, 3], np.float32), 8000)
    with wave.open(io.BytesIO(wav(audio, bits=16))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 1, 2)
        values = np.frombuffer(file.readframes(9), "<i2")
    assert values.tolist() == [0, 32767, -32767, 16384, 32767]
