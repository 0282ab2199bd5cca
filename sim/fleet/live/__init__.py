"""The replay's traces against a running server, over gRPC, in real time."""
