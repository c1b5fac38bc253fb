"""Checks behind a run: what was looked at, answers' hashes, and rederiving as a job.

Columns are added in place: no table is copied, whatever its size. A sample that was done before counts as not looked at,
so the checks that read text come to it too.

Revision ID: 0002
Revises: 0001
Create Date: 2026-11-30 12:30:00.000000
"""

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

_UNCHECKED = "state = 'done' AND text_checked <> attempt"


def upgrade() -> None:
    op.add_column('runs', sa.Column('token_format', sa.String(length=60), nullable=True))
    op.add_column('runs', sa.Column('collection_due', sa.Integer(), nullable=False, server_default='0'))
    op.add_column('runs', sa.Column('check_trouble', sa.Text(), nullable=False, server_default=''))
    op.add_column('run_categories', sa.Column('checked', sa.Integer(), nullable=False, server_default='0'))
    op.add_column('samples', sa.Column('text_checked', sa.Integer(), nullable=False, server_default='0'))
    op.add_column('samples', sa.Column('answer_hash', db.types.Big, nullable=True))
    op.create_index(
        'ix_samples_unchecked', 'samples', ['run_id', 'state', 'id'], unique=False,
        sqlite_where=sa.text(_UNCHECKED), postgresql_where=sa.text(_UNCHECKED),
    )
    op.create_table('rederivations',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('run_id', sa.Integer(), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('token_format', sa.String(length=60), nullable=True),
    sa.Column('position', db.types.Big, nullable=False),
    sa.Column('total', sa.Integer(), nullable=False),
    sa.Column('done', sa.Integer(), nullable=False),
    sa.Column('before', db.types.Json, nullable=False),
    sa.Column('after', db.types.Json, nullable=False),
    sa.Column('error', sa.Text(), nullable=False),
    sa.Column('created_by', sa.Integer(), nullable=True),
    sa.Column('created_at', db.types.UtcTime(), nullable=False),
    sa.Column('started_at', db.types.UtcTime(), nullable=True),
    sa.Column('finished_at', db.types.UtcTime(), nullable=True),
    sa.ForeignKeyConstraint(['created_by'], ['users.id'], name=op.f('fk_rederivations_created_by_users'), ondelete='SET NULL'),
    sa.ForeignKeyConstraint(['run_id'], ['runs.id'], name=op.f('fk_rederivations_run_id_runs'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_rederivations')),
    sqlite_autoincrement=True
    )
    with op.batch_alter_table('rederivations', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_rederivations_run_id'), ['run_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_rederivations_state'), ['state'], unique=False)


def downgrade() -> None:
    op.drop_table('rederivations')
    op.drop_index('ix_samples_unchecked', table_name='samples')
    for table, columns in (
        ('samples', ('answer_hash', 'text_checked')),
        ('run_categories', ('checked',)),
        ('runs', ('check_trouble', 'collection_due', 'token_format')),
    ):
        for column in columns:
            op.drop_column(table, column)
