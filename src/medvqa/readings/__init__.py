"""Answers and opinions of people: the study, who reads what, and the files in which readings travel."""
