"""LIBERO-PRO episodes on MuJoCo, as a robot."""
