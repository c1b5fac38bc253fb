"""Which role a turn has, whatever the data set calls it."""

from inference.prompts.rows import RowRefused, quote

CALL = "call"
"""Not a role that is stored: an assistant turn whose whole text is a tool call."""

ROLES = {
    "system": "system",
    "developer": "developer",  # kept: turning it into a system message changes ids, and is the run's choice to make
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "tool": "tool",
    "tool_response": "tool",
    "tool_result": "tool",
    "observation": "tool",
    "function": "tool",
    "function_response": "tool",
    "function_result": "tool",
    "ipython": "tool",
    "tool_call": CALL,
    "function_call": CALL,
}


def role_of(value: object, where: str) -> str:
    """The role that `value` names, in any letter case, with `-`, blank or `_` between its words.

    Raises:
        RowRefused: no such role; the sentence quotes it.
    """
    if value is None:
        raise RowRefused("role_missing", f"{where} has no role; each message needs `role` (or `from`)")
    if isinstance(value, str):
        role = ROLES.get(value.strip().lower().replace("-", "_").replace(" ", "_"))
        if role is not None:
            return role
    known = "system, developer, user, assistant and tool, and the names ShareGPT has for them"
    raise RowRefused("role_unknown", f"{where} has the role {quote(value)}; known are {known}")
