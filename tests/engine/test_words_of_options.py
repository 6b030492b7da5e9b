"""Short names of token limits: accepted wherever sampling parameters are."""

from __future__ import annotations

import pytest

from sgnb.errors import OptionError
from sgnb.sampling import SamplingParams


def test_short_names_of_token_limits() -> None:
    params = SamplingParams.make({"max_tokens": 7, "min_tokens": 2})
    assert (params.max_new_tokens, params.min_new_tokens) == (7, 2)
    assert SamplingParams.make(params, max_tokens=9).max_new_tokens == 9
    assert SamplingParams.make(None, max_tokens=None, max_new_tokens=3).max_new_tokens == 3
    with pytest.raises(OptionError, match="exclude each other"):
        SamplingParams.make(max_tokens=7, max_new_tokens=8)
    with pytest.raises(OptionError, match="max_new_tokens=-1 is not allowed"):
        SamplingParams.make(max_tokens=-1)
