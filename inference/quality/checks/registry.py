"""Every check there is, in the order they run: name, the codes it can raise, what it needs.

To add one: a function in a module of this package, its codes in `quality/flags.py`, and a line here. The tests hold each check to
its declared codes, and each code to an example.
"""

from inference.quality.answer import Answer
from inference.quality.checks.characters import check_characters, check_tokens
from inference.quality.checks.check import Check
from inference.quality.checks.content import check_content, check_control_tokens, check_spelled
from inference.quality.checks.drift import check_drift
from inference.quality.checks.ending import check_end
from inference.quality.checks.foreign import check_foreign
from inference.quality.checks.language import check_language
from inference.quality.checks.loops import check_loops
from inference.quality.checks.near import check_near
from inference.quality.checks.reasoning import check_reasoning
from inference.quality.checks.structure import NOTED, check_structure
from inference.quality.reading import Reading
from inference.quality.toolchecks import check_calls

_CALL_CODES = frozenset(
    {
        "tool_json_invalid",
        "tool_arguments_invalid",
        "tool_name_unreadable",
        "tool_dialect",
        "tool_unknown",
        "tool_argument_unknown",
        "tool_argument_missing",
        "tool_argument_type",
    }
)

ID_CHECKS: tuple[Check[Answer], ...] = (
    Check("end", frozenset({"truncated", "output_empty", "finish_mismatch"}), "ids", check_end),
    Check("loops", frozenset({"repetition_loop"}), "ids", check_loops),
    Check(
        "reasoning",
        frozenset({"reasoning_missing", "reasoning_empty", "reasoning_unexpected"}),
        "ids",
        check_reasoning,
    ),
    Check("structure", NOTED, "ids", check_structure),
    Check("content", frozenset({"content_empty"}), "ids", check_content),
    Check("control tokens", frozenset({"role_marker_in_output", "control_in_content"}), "ids", check_control_tokens),
    Check("spelled delimiters", frozenset({"delimiter_spelled"}), "ids", check_spelled),
    Check("characters", frozenset({"ends_inside_character"}), "ids", check_characters),
    Check("tokens", frozenset({"id_without_token"}), "ids", check_tokens),
    Check("calls", _CALL_CODES, "ids", check_calls),
)
"""Inline, for every answer as it arrives."""

TEXT_CHECKS: tuple[Check[Reading], ...] = (
    Check("near repetition", frozenset({"near_repetition"}), "text", check_near),
    Check("foreign markers", frozenset({"marker_foreign"}), "text", check_foreign),
    Check("language", frozenset({"language_mismatch"}), "text", check_language),
    Check("drift", frozenset({"retokenization_drift"}), "demand", check_drift),
)
"""In a pass behind the run: they decode. The last encodes, too, and is off unless it is asked for."""

CHECKS: tuple[Check[Answer] | Check[Reading], ...] = (*ID_CHECKS, *TEXT_CHECKS)
"""Every check of one answer. What compares answers is in `quality/collection.py`."""
