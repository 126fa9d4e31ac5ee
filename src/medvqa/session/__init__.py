"""One run, from its options to its reports and its verdict, without pytest."""
