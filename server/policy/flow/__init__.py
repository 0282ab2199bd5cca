"""The small flow-matching policy: no weights from a hub, numpy only, ground truth as input."""
