"""Server-rendered pages: routes, frozen page models, templates and static files. Holds no business rule; calls the services."""
