"""The brain tier in virtual time: vLLM's own scheduler under a cost model."""
