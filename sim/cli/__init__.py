"""`python -m sim`: runs of LIBERO-PRO episodes against a server."""
