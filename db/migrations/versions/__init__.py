"""Alembic's folder; `db.migrate` is the way in."""
