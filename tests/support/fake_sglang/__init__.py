"""A fake SGLang, faithful to recorded answers of the real one (0.5.23), that makes faults on demand.

`FakeSglang` runs on a thread of the test; `python -m tests.support.fake_sglang --port N --control` is a process of its own.
"""

from tests.support.fake_sglang.facts import Facts, Knobs
from tests.support.fake_sglang.script import Answer, Call, JsonScript, Script
from tests.support.fake_sglang.server import FakeSglang, Seen
from tests.support.fake_sglang.vocabulary import RECORDED_ANSWER, BuiltinVocabulary, FolderVocabulary, Vocabulary

__all__ = [
    "RECORDED_ANSWER",
    "Answer",
    "BuiltinVocabulary",
    "Call",
    "Facts",
    "FakeSglang",
    "FolderVocabulary",
    "JsonScript",
    "Knobs",
    "Script",
    "Seen",
    "Vocabulary",
]
