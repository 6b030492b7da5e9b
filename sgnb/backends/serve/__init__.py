"""An engine for other programs: OpenAI's and SGLang's protocols over HTTP on loopback. Needs the
extra `serve`; nothing is imported before the first use."""
