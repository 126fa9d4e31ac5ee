"""Where data come from: tables, images, lexical trees, selection, marks on images, names of people, and folders that a user edits."""
