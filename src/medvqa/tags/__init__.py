"""The tags of questions: lexical trees, what selects questions, the user's own tags."""
