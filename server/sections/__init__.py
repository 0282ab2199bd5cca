"""Sections of the configuration, one per file. `server.config` puts them together."""
