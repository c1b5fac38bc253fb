"""One module per page family; `router` has them all. Handlers parse a form, call a service, and draw or redirect."""

from fastapi import APIRouter

from web.routes.backends import router as backends
from web.routes.exports import router as exports
from web.routes.home import router as home
from web.routes.prompt_sets import router as prompt_sets
from web.routes.render import router as render
from web.routes.review import router as review
from web.routes.run_launch import router as run_launch
from web.routes.runs import router as runs
from web.routes.samples import router as samples
from web.routes.users import router as users

router = APIRouter(include_in_schema=False)
for _family in (home, backends, prompt_sets, run_launch, runs, samples, review, render, exports, users):
    router.include_router(_family)
