"""Tables and figures of the study, made anew under this system's own decisions."""
