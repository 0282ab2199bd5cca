"""The gRPC front end: servicers that translate, and the drivers that keep episodes and calls."""
