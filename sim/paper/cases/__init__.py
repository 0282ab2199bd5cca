"""One file per case. A file here that defines `CASE` is a case; its name follows the file's."""
