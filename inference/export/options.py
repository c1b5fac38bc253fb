"""What may be chosen about an export. Defaults leave out whatever a person or a check would not want trained."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from db.errors import Invalid
from inference.quality.flags import FLAG_CODES

ALL_FLAGS = "*"


class ExportOptions(BaseModel):
    """Options of every target. Unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    include_truncated: bool = Field(False, description="Take answers that were cut off at their token limit, too.")
    include_bad: bool = Field(False, description="Take samples that somebody called bad, too.")
    include_flagged: tuple[str, ...] = Field(
        (), description="Flag codes of severity error that do not leave a sample out; `*` is all of them."
    )
    require_good: bool = Field(False, description="Take only samples that somebody called good.")
    max_length: int | None = Field(
        None, ge=2, description="Longest row in tokens, prompt and answer together; null: no limit."
    )
    over_length: Literal["drop", "clip"] = Field(
        "drop", description="What happens to a longer row: left out, or cut at max_length (without its final stop id)."
    )
    min_loss_tokens: int = Field(1, ge=1, description="Fewest trained tokens of a row.")
    rows_per_file: int = Field(
        50_000, ge=1, le=10_000_000, description="Rows in one data file; some readers hold a whole file in memory."
    )

    @field_validator("include_flagged", mode="before")
    @classmethod
    def _all_or_none(cls, value: Any) -> Any:
        """`true` and `false`, as its neighbours take them."""
        if isinstance(value, bool):
            return (ALL_FLAGS,) if value else ()
        return value

    @field_validator("include_flagged")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [code for code in value if code != ALL_FLAGS and code not in FLAG_CODES]
        if unknown:
            raise ValueError(f"there is no flag code {unknown[0][:80]!r} (GET /api/v1/flags lists them)")
        return value


def read_options(data: dict[str, Any]) -> ExportOptions:
    """The options that `data` chooses, the rest at their defaults.

    Raises:
        Invalid: `export_options_invalid`, with the option's name as `field`.
    """
    try:
        return ExportOptions.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(["options", *map(str, first["loc"])])
        known = ", ".join(ExportOptions.model_fields)
        raise Invalid("export_options_invalid", f"{name}: {first['msg']}. Options are: {known}.", field=name) from error


def describe_options() -> dict[str, Any]:
    """{option: {default, description}} for people and scripts."""
    return {
        name: {"default": field.get_default(call_default_factory=False), "description": field.description}
        for name, field in ExportOptions.model_fields.items()
    }
