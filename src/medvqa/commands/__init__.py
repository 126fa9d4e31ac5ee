"""Functions that work on runs: typed values in, typed values or texts out. They print only by functions passed in."""
