"""Where data come from: tables, images, lexical trees, selection, marks on images, names of people, edited folders."""
