"""Fleets of robots in virtual time, under the decisions of the server and of the SDK."""
