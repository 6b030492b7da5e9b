"""SGLang's paths of backends, a module each."""
