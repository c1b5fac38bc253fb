"""From what people ask for to what is executed: a typed spec, flags, checks, ports, and the exact command."""
