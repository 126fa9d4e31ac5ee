"""Check a spreadsheet of cases, and make a benchmark of it."""
