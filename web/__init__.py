"""Pages: routes, view models, templates, static files."""
