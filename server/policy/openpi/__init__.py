"""A policy server elsewhere that speaks openpi's websocket protocol, as a policy of this server.

openpi's own server does, and vLLM-Omni's endpoint `/v1/realtime/robot/openpi`. The protocol as both
speak it: the server sends its metadata first; then each binary message is one observation, a map in
MessagePack with marked arrays, answered by one binary message with the actions. openpi tells an
error as a text message and hangs up, vLLM-Omni as a map `{"type": "error", "message": …}`.
"""
