"""The checks of one answer, by subject. Each is declared in `registry.py`, the one place that knows them all."""
