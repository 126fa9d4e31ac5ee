"""Where data come from: tables, lexical trees, selection, marks on images, and the folders that a user edits."""
