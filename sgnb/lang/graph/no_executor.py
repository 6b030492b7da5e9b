"""Stand-in executor for programs without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from ...errors import Aborted
from ...events import EventLog
from ...segment import Segment
from ..chat import PLAIN, ChatTemplate


class NoExecutor:
    """An executor for traces: provides a chat template and never receives a request."""

    tokenizer_id = ""
    special_tokens: re.Pattern[str] | None = None

    def __init__(self) -> None:
        self.chat: ChatTemplate = PLAIN
        self.log = EventLog()

    def generate(self, call: Any, sink: Any) -> NoReturn:
        raise Aborted("a traced program asks no model")

    score = generate

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        return []

    def flush_cache(self) -> int:
        return 0

    def server_info(self) -> dict[str, Any]:
        return {}
