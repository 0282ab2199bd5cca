"""Model workers: processes that compute, so that the front end never does."""
