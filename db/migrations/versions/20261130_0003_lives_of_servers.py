"""The lives of servers: ports reserved, phases and host of each start, live figures, breakers, leftovers.

Columns are added in place with a default; a server that an earlier version started is taken back as it is.

Revision ID: 0003
Revises: 0002
Create Date: 2026-11-30 16:10:00.000000
"""

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('backends', sa.Column('kill_requested', sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column('backends', sa.Column('forget_requested', sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column('backends', sa.Column('deadline_at', db.types.UtcTime(), nullable=True))
    op.add_column('backends', sa.Column('figures', db.types.Json, nullable=True))
    op.add_column('backends', sa.Column('breaker', db.types.Json, nullable=True))
    op.add_column('backend_starts', sa.Column('nccl_port', sa.Integer(), nullable=True))
    op.add_column('backend_starts', sa.Column('environment', db.types.Json, nullable=False, server_default=sa.text("'{}'")))
    op.add_column('backend_starts', sa.Column('host', sa.String(length=255), nullable=True))
    op.add_column('backend_starts', sa.Column('boot_id', sa.String(length=64), nullable=True))
    op.add_column('backend_starts', sa.Column('error', db.types.Json, nullable=True))
    op.add_column('backend_starts', sa.Column('phases', db.types.Json, nullable=False, server_default=sa.text("'[]'")))
    op.add_column('backend_starts', sa.Column('gpu_before', db.types.Json, nullable=True))
    op.create_table('backend_ports',
    sa.Column('port', sa.Integer(), autoincrement=False, nullable=False),
    sa.Column('start_id', db.types.Big, nullable=False),
    sa.Column('purpose', sa.String(length=20), nullable=False),
    sa.ForeignKeyConstraint(['start_id'], ['backend_starts.id'], name=op.f('fk_backend_ports_start_id_backend_starts'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('port', name=op.f('pk_backend_ports'))
    )
    op.create_index(op.f('ix_backend_ports_start_id'), 'backend_ports', ['start_id'], unique=False)
    op.create_table('backend_figures',
    sa.Column('id', db.types.Big, nullable=False),
    sa.Column('backend_id', sa.Integer(), nullable=False),
    sa.Column('at', db.types.UtcTime(), nullable=False),
    sa.Column('source', sa.String(length=10), nullable=False),
    sa.Column('running', sa.Integer(), nullable=True),
    sa.Column('queued', sa.Integer(), nullable=True),
    sa.Column('kv_usage', sa.Float(), nullable=True),
    sa.Column('tokens_per_s', sa.Float(), nullable=True),
    sa.Column('cache_hit', sa.Float(), nullable=True),
    sa.ForeignKeyConstraint(['backend_id'], ['backends.id'], name=op.f('fk_backend_figures_backend_id_backends'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_backend_figures')),
    sqlite_autoincrement=True
    )
    op.create_index('ix_backend_figures_backend_at', 'backend_figures', ['backend_id', 'at'], unique=False)
    op.create_table('leftovers',
    sa.Column('id', db.types.Big, nullable=False),
    sa.Column('marker', sa.String(length=120), nullable=False),
    sa.Column('pid', sa.Integer(), nullable=False),
    sa.Column('pid_started', sa.Float(), nullable=False),
    sa.Column('name', sa.String(length=200), nullable=False),
    sa.Column('processes', sa.Integer(), nullable=False),
    sa.Column('memory_mib', sa.Integer(), nullable=True),
    sa.Column('gpu_mib', sa.Integer(), nullable=True),
    sa.Column('found_at', db.types.UtcTime(), nullable=False),
    sa.Column('clean_requested', sa.Boolean(), nullable=False),
    sa.Column('cleaned_at', db.types.UtcTime(), nullable=True),
    sa.Column('message', sa.Text(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_leftovers')),
    sqlite_autoincrement=True
    )
    op.create_index(op.f('ix_leftovers_marker'), 'leftovers', ['marker'], unique=False)


def downgrade() -> None:
    op.drop_table('leftovers')
    op.drop_table('backend_figures')
    op.drop_table('backend_ports')
    for table, columns in (
        ('backend_starts', ('gpu_before', 'phases', 'error', 'boot_id', 'host', 'environment', 'nccl_port')),
        ('backends', ('breaker', 'figures', 'deadline_at', 'forget_requested', 'kill_requested')),
    ):
        for column in columns:
            op.drop_column(table, column)
