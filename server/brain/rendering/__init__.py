"""Append-only prompts of a language model: rendering, token history, and reading its output."""
