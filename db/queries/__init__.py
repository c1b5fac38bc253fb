"""SQL, one module per noun; functions take a session and return rows or plain values."""
