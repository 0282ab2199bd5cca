"""What runs are summed up with."""
