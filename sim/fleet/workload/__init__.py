"""Episodes as a brain and a policy see them: what a turn adds, what happens until the next."""
