"""One run, from what was typed to its reports and its verdict."""
