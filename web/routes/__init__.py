"""One module per page family; `router` has them all. Handlers parse a form, call a service, and draw or redirect."""

from fastapi import APIRouter

from web.routes import backends, exports, home, prompt_sets, render, review, run_launch, runs, samples, users

router = APIRouter(include_in_schema=False)
for _family in (home, backends, prompt_sets, run_launch, runs, samples, review, render, exports, users):
    router.include_router(_family.router)
