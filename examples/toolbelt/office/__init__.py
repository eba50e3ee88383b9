"""An office as plain files, and nine MCP servers over it."""
