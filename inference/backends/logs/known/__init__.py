"""The known failures of SGLang, a module for each kind; `logs/failures.py` puts them in order.

To add one: write a `Known` into the module of its kind, at its place (what is more telling stands above what is more
general), with a line as SGLang prints it in `example`. The tests then hold it to that line, and to every good log.
"""
