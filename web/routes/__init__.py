"""One module per page family; `router` has them all. Handlers parse a form, call a service, and draw or redirect."""

from fastapi import APIRouter

from web.routes.backend_edit import router as backend_edit_pages
from web.routes.backend_new import router as backend_new_pages
from web.routes.backends import router as backends_pages
from web.routes.exports import router as exports_pages
from web.routes.flags import router as flags_pages
from web.routes.home import router as home_pages
from web.routes.leftovers import router as leftovers_pages
from web.routes.prompt_sets import router as prompt_sets_pages
from web.routes.render import router as render_pages
from web.routes.review import router as review_pages
from web.routes.run_launch import router as run_launch_pages
from web.routes.runs import router as runs_pages
from web.routes.samples import router as samples_pages
from web.routes.token_formats import router as token_formats_pages
from web.routes.users import router as users_pages

router = APIRouter(include_in_schema=False)
for _family in (
    home_pages,
    backend_new_pages,
    backend_edit_pages,
    backends_pages,
    leftovers_pages,
    prompt_sets_pages,
    run_launch_pages,
    runs_pages,
    samples_pages,
    review_pages,
    render_pages,
    exports_pages,
    token_formats_pages,
    flags_pages,
    users_pages,
):
    router.include_router(_family)
