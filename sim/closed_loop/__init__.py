"""Real episodes in virtual time: brain turns and chunks take as long as a loaded box takes."""
