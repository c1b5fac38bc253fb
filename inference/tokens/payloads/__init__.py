"""How tool calls are written inside their markers: one module per grammar. Nothing here repairs what it reads."""
