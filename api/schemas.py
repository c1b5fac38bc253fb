"""What REST reads and shows that no service has a model for."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from inference.model import View
from inference.review.views import PieceView
from inference.runs.views import RunView
from inference.tokens.declaration import TokenFormat

Role = Literal["reviewer", "operator", "admin"]
MAX_IDS = 200_000
"""Of one list in a request: past the longest answers there are, and a second or two of work"""
TokenId = Annotated[int, Field(ge=0, lt=2**32, strict=True)]
Ids = Annotated[list[TokenId], Field(max_length=MAX_IDS)]


class Body(BaseModel):
    """A request body: a field nobody knows is an error, not a wish unheard."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Me(View):
    """Who I am; `csrf` is what a cookie session's changes must carry in `X-CSRF-Token`."""

    id: int
    name: str
    role: str
    via: str
    csrf: str


class UserView(View):
    """A user."""

    id: int
    name: str
    role: str
    disabled: bool
    created_at: datetime


class NewUser(Body):
    """A user to be."""

    name: str
    role: Role


class UserChanges(Body):
    """What to change of a user; what is left out stays."""

    name: str | None = None
    role: Role | None = None
    disabled: bool | None = None


class NewToken(Body):
    """A token to be; the label says what it is for."""

    label: str = Field("", max_length=80)


class TokenView(View):
    """A token, without its secret."""

    id: int
    label: str
    created_at: datetime
    last_used_at: datetime | None
    revoked: bool


class ShownToken(View):
    """A token just made: `token` is shown this once."""

    id: int
    label: str
    token: str
    created_at: datetime


class ShownLink(View):
    """A one-time log-in path just made: shown this once."""

    path: str
    expires_at: datetime


class AuditView(View):
    """Who did what to which thing, and when."""

    id: int
    at: datetime
    by: str
    action: str
    subject: str
    detail: dict[str, Any]


class RenderRequest(Body):
    """A conversation to render as a run would."""

    tokenizer: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    token_format: str | None = Field(None, description="Left out: the one that fits the tokenizer.")
    role_map: dict[str, str] | None = Field(
        None, description='Roles rendered under another name, as a run\'s role_map: {"developer": "system"}.'
    )


class RenderWarningView(View):
    """What the rendering lost or did twice; `where` is the index of the message it is about, null where it is about the whole."""

    code: str
    message: str
    where: int | None = None


class RenderedView(View):
    """The exact prompt: its ids, their text, and each token for display."""

    ids: list[int]
    text: str
    pieces: list[PieceView]
    warnings: list[RenderWarningView]


class SegmentRequest(Body):
    """Output ids to be cut as a run would cut them."""

    tokenizer: str
    token_format: str
    prompt_ids: Ids = []
    output_ids: Ids
    finish_reason: str | None = None
    tools: list[dict[str, Any]] | None = None


class ThinkView(View):
    """What stands around reasoning."""

    open: str
    close: str


class CallsView(View):
    """What stands around tool calls and within them."""

    begin: str
    end: str | None
    section_begin: str | None
    section_end: str | None
    separator: str | None
    inner: list[str]


class MessagesView(View):
    """What an answer that is a row of messages is cut by."""

    start: str
    channel: str
    body: str
    end: str
    constrain: str


class TokenFormatView(View):
    """One model family's delimiters, as declared.

    `expects` says when reasoning is due: `always`; `by_template` (unless the prompt closed it); `by_prompt` (where the prompt opened
    it); `never`. `spelled`: delimiters that some of its vocabularies spell with ordinary tokens. `reasoning_parsers`: SGLang's names.
    """

    name: str
    title: str
    markers: list[str]
    think: ThinkView | None
    calls: CallsView | None
    messages: MessagesView | None
    stops: list[str]
    turn_starts: list[str]
    spelled: list[str]
    expects: str
    arguments_as: str
    reasoning_parsers: list[str]

    @classmethod
    def of(cls, known: TokenFormat) -> "TokenFormatView":
        """A declaration, for people."""
        calls = known.calls
        return cls(
            name=known.name,
            title=known.title,
            markers=list(known.markers()),
            think=ThinkView(open=known.think.open, close=known.think.close) if known.think else None,
            calls=calls
            and CallsView(
                begin=calls.begin,
                end=calls.end,
                section_begin=calls.section_begin,
                section_end=calls.section_end,
                separator=calls.separator,
                inner=list(calls.inner),
            ),
            messages=MessagesView(**vars(known.messages)) if known.messages else None,
            stops=list(known.stops),
            turn_starts=list(known.turn_starts),
            spelled=list(known.spelled),
            expects=known.expects,
            arguments_as=known.arguments_as,
            reasoning_parsers=list(known.reasoning_parsers),
        )


class SuggestedFormat(View):
    """The token format that fits a tokenizer best, why, and which others fit as well, the likeliest first."""

    name: str
    reason: str
    alternatives: list[str]


class FlagCodeView(View):
    """A flag code, its severity, and what it means.

    `needs`: what it takes to raise it: `prompt`, `ids` (as the answer arrives), `text` (behind the run), `run` (all of its answers),
    `demand` (text, and only where it is asked for). `default`: whether a run looks for it unless told otherwise. `switchable`:
    whether a run can be told, in `checks`.
    """

    code: str
    severity: str
    meaning: str
    needs: str
    default: bool
    switchable: bool


class RegenerateRequest(Body):
    """Which samples to make again, and with what changes."""

    filter: dict[str, Any]
    sampling: dict[str, Any] | None = None
    backend_ids: list[int] | None = None
    expected_count: int | None = Field(None, ge=0)


class RederiveRequest(Body):
    """How to read the ids from now on; left out: as they are read."""

    token_format: str | None = None


class ReviewBody(Body):
    """My whole review: what is left out is taken away."""

    verdict: Literal["good", "bad", "unsure"] | None = None
    tags: list[str] = Field([], max_length=100)
    note: str = ""
    attempt: int | None = Field(
        None, ge=1, description="The attempt you looked at: a newer one is then not judged unseen."
    )


class NewComment(Body):
    """A remark, on a half-open token range or on the whole."""

    body: str
    start: int | None = Field(None, ge=0)
    end: int | None = Field(None, ge=0)


class NewTag(Body):
    """A tag; `key` is its number key, 1 to 10 (10 is `0`)."""

    name: str
    key: int | None = None


class NewExport(Body):
    """What to export of a run, and how."""

    format: str
    filter: dict[str, Any] = {}
    options: dict[str, Any] = {}


class AffectedRun(RunView):
    """A run as it stands after a change, and how many samples the change touched."""

    affected: int

    @classmethod
    def of(cls, run: RunView, affected: int) -> "AffectedRun":
        """The run, with the count."""
        return cls(**dict(run), affected=affected)
