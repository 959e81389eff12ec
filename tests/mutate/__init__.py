"""Break the code on purpose, one small change at a time, and count how many of the changes the tests notice."""
