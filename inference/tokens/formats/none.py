"""No format: everything is content up to the stop id. For models that neither think nor call, or are not known here."""

from inference.tokens.declaration import TokenFormat

FORMAT = TokenFormat(
    name="none",
    title="Plain: one answer, no reasoning, no calls",
    arguments_as="by_template",
    null_content="by_template",
)
