"""Starting this project's processes: servers and workers that end with who started them."""
