"""Episodes as a brain and a policy see them: what each turn adds, and what happens until the next."""
