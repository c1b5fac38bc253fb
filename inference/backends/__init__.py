"""One SGLang server as a thing with a life: launch, process, log, health, supervisor, client, fidelity probe. Knows no runs."""
