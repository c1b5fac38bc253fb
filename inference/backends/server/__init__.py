"""One SGLang server over HTTP: the client of `/generate`, health, what it tells of itself, proof that it is ready."""
