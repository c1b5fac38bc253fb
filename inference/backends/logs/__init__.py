"""A server's log: shown to people without keys, and read for phases and for the reason of a failure."""
