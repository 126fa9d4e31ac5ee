"""Where data come from: tables, images, lexical trees, selection, marks on images, and folders that a user edits."""
