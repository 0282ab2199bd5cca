"""Decisions of the server: pure objects of values and `now_s`, without I/O, clocks or threads."""
