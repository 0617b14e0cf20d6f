"""Pictures by matplotlib, which is imported only when drawing. May be imported only by the command
line."""
