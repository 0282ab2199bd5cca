"""A brain behind any OpenAI-compatible chat endpoint.

The conversation is sent whole at every turn, as the protocol wants it, but it is written only once:
a message that was sent is kept as bytes and sent again as these bytes, so that the prefix cache of
the endpoint finds what it has seen.
"""
