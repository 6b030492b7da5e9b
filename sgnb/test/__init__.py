"""SGLang's paths of helpers for benchmark programs and tests."""
