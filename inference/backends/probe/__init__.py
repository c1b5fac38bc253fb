"""The fidelity probe: whether a server's ids can be trusted, and what its text would lose."""
