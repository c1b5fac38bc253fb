"""How a server would be started: what a launch may hold, and the command of one."""

from api.deps import Ctx, Operator, Reviewer
from api.jsonbody import make_router
from api.schemas import Body
from inference.backends import offers
from inference.backends.launch.spec import LaunchSpec

router = make_router(tag="backends")


class LaunchBody(Body):
    """A launch that is not kept."""

    launch: LaunchSpec


@router.get("/launch-fields")
def get_launch_fields(_: Reviewer, ctx: Ctx) -> offers.LaunchFieldsView:
    """Every field of `launch` with its default in words, and every further flag with the policy it falls under."""
    return offers.launch_fields(ctx.settings)


@router.post("/backends/preview")
def preview_launch(_: Operator, ctx: Ctx, body: LaunchBody) -> offers.LaunchPreviewView:
    """The command that a start would run, and its environment; nothing is made or started, no secret is shown."""
    return offers.launch_preview(ctx.settings, body.launch)
