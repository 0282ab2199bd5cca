"""A fleet replayed in virtual time: the server's own decisions, vLLM's own scheduler."""
