"""Small tools that know nothing of graphs and models: files, words, deadlines, optional packages."""
