"""REST: routers of a few lines, request models, problem details, users and auth, the composition root."""
