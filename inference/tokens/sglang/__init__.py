"""What SGLang's own reasoning parsers would have made of an answer, told beside what its ids say.

An explanation only: no segment, flag or export depends on it. The behaviour is that of SGLang 0.5.23, not streamed, found by
reading it and held to it by a test that runs both over the same texts.
"""
