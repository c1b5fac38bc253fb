"""The database room: engine, tables, queries, the filter grammar as SQL, the id store, migrations.

It knows nothing above it. Table classes never leave `db` and `inference`; the edges get plain models.
"""
