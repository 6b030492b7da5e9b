"""Random programs for the soak test: each program draws a task, runs on the engine, and checks the
result.

A program raises AssertionError for a wrong output. All programs draw from the given generator.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable
from typing import Any

import sgnb

from ..common import tokens

PATTERNS = (
    r"[A-Z][a-z]{2,12}, [0-9]{1,4}",
    r"(yes|no|perhaps)( (yes|no|perhaps)){2,6}",
    r"\{\"name\":\"[a-z ]{1,20}\",\"age\":[0-9]{1,3}\}",
    r"(🦊|Größe|naïve){1,4}!",
)
SCHEMAS: tuple[dict[str, Any], ...] = (
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}, "ready": {"type": "boolean"}},
        "required": ["city", "ready"],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 2, "maxItems": 5},
)


class Programs:
    """sizes: the longest prompt and the longest output, in tokens."""

    def __init__(self, engine: sgnb.Engine, longest_prompt: int, longest_output: int) -> None:
        self._engine = engine
        self._longest_prompt, self._longest_output = longest_prompt, longest_output
        self.kinds: dict[str, Callable[[random.Random], None]] = {
            "plain": self._plain,
            "forks": self._forks,
            "samples": self._samples,
            "abort": self._abort,
            "stream": self._stream,
            "regex": self._regex,
            "schema": self._schema,
            "stop": self._stop,
            "scored": self._scored,
            "penalties": self._penalties,
        }

    def run(self, rng: random.Random) -> str:
        """Run one program; its kind."""
        kind = rng.choice(list(self.kinds))
        self.kinds[kind](rng)
        return kind

    def _prompt(self, rng: random.Random) -> list[int]:
        """Mostly short; about one in eight is long."""
        longest = self._longest_prompt if rng.random() < 0.125 else self._longest_prompt // 8
        return tokens(rng, rng.randint(1, max(1, longest)), self._engine.vocab_size)

    def _length(self, rng: random.Random) -> int:
        return rng.randint(1, self._longest_output)

    def _sampling(self, rng: random.Random) -> dict[str, Any]:
        return rng.choice(
            (
                {"temperature": 0},
                {"temperature": 1.0, "seed": rng.randrange(100)},
                {"temperature": 0.7, "top_p": 0.9},
                {"temperature": 1.2, "top_k": 20, "min_p": 0.01},
            )
        )

    def _plain(self, rng: random.Random) -> None:
        prompts = [self._prompt(rng) for _ in range(rng.randint(1, 6))]
        new = self._length(rng)
        outputs = self._engine.generate(
            prompts, self._sampling(rng), max_new_tokens=new, ignore_eos=True
        )
        assert all(len(output.token_ids) == new for output in outputs), (
            "a plain output has another length"
        )

    def _forks(self, rng: random.Random) -> None:
        """Run a prompt with several branches, and further branches below each."""
        begins = [self._prompt(rng)]
        for _ in range(rng.randint(1, 3)):
            prompts = [
                begin + tokens(rng, 2, self._engine.vocab_size)
                for begin in begins
                for _ in range(3)
            ]
            prompts = rng.sample(prompts, min(len(prompts), 6))
            new = rng.randint(1, max(1, self._longest_output // 4))
            options = {"max_new_tokens": new, "ignore_eos": True, "temperature": 0}
            outputs = self._engine.generate(prompts, options)
            assert all(len(output.token_ids) == new for output in outputs), (
                "a fork has another length"
            )
            begins = [
                prompt + output.token_ids for prompt, output in zip(prompts, outputs, strict=True)
            ]

    def _samples(self, rng: random.Random) -> None:
        n = rng.randint(2, 5)
        options = {"max_new_tokens": self._length(rng), "n": n, "temperature": 1.0}
        assert len(self._engine.generate(self._prompt(rng), options)) == n, (
            "another number of samples"
        )

    def _abort(self, rng: random.Random) -> None:
        """Requests that are stopped after a moment, at whatever they are then."""
        count = rng.randint(1, 4)
        done = threading.Semaphore(0)
        reasons: list[str | None] = []

        def on_output(output: Any) -> None:
            reasons.append(output.finish_reason)
            done.release()

        params = sgnb.SamplingParams(max_new_tokens=self._longest_output, ignore_eos=True)
        ids = self._engine.submit(
            [self._prompt(rng) for _ in range(count)], [params] * count, [on_output] * count
        )
        threading.Event().wait(rng.random() * 0.05)
        self._engine.abort(ids)
        for _ in range(count):
            assert done.acquire(timeout=120), "an aborted request never ended"
        assert set(reasons) <= {"abort", "length"}, reasons

    def _stream(self, rng: random.Random) -> None:
        """Read to the end, or left in the middle."""
        options = {"max_new_tokens": self._length(rng), "temperature": 1.0, "ignore_eos": True}
        stop_after = rng.choice((None, rng.randint(0, 5)))
        text = ""
        for count, output in enumerate(
            self._engine.generate(self._prompt(rng), options, stream=True)
        ):
            assert output.text.startswith(text), "a stream took text back"
            text = output.text
            if count == stop_after:
                return

    def _regex(self, rng: random.Random) -> None:
        pattern = rng.choice(PATTERNS)
        options = {"regex": pattern, "max_new_tokens": 200, "jump_forward": rng.random() < 0.7}
        outputs = self._engine.generate(
            [self._prompt(rng) for _ in range(rng.randint(1, 4))], options
        )
        for output in outputs:
            if output.finish_reason == "stop":
                assert re.fullmatch(pattern, output.text), (
                    f"{output.text!r} does not match {pattern}"
                )

    def _schema(self, rng: random.Random) -> None:
        schema = rng.choice(SCHEMAS)
        output = self._engine.generate(
            self._prompt(rng), self._sampling(rng), json_schema=schema, max_new_tokens=200
        )
        if output.finish_reason == "stop":
            assert isinstance(
                json.loads(output.text), dict if schema["type"] == "object" else list
            ), output.text

    def _stop(self, rng: random.Random) -> None:
        stops = rng.sample(["a", "e", " t", "\n", "in"], 2)
        options = {"stop": stops, "max_new_tokens": self._length(rng), "temperature": 1.0}
        output = self._engine.generate(self._prompt(rng), options)
        if output.finish_reason == "stop":
            assert not any(stop in output.text for stop in stops), (
                f"a stop string is in {output.text!r}"
            )

    def _scored(self, rng: random.Random) -> None:
        prompt, new = self._prompt(rng), rng.randint(0, max(1, self._longest_output // 4))
        output = self._engine.generate(
            prompt,
            max_new_tokens=new,
            return_logprob=True,
            logprob_start_len=0,
            top_logprobs_num=2,
            ignore_eos=True,
        )
        assert len(output.prompt_logprobs) == len(prompt) - 1, "another number of prompt scores"
        # Without new tokens, the one that may come next is scored.
        assert len(output.logprobs) == max(1, new), "another number of scores"
        assert all(value <= 1e-3 for value in output.prompt_logprobs + output.logprobs), (
            "a probability above 1"
        )

    def _penalties(self, rng: random.Random) -> None:
        options = {
            "max_new_tokens": self._length(rng),
            "frequency_penalty": 0.5,
            "repetition_penalty": 1.1,
        }
        self._engine.generate(self._prompt(rng), options)
