"""From a model and a question to a verified explanation: the pipeline, the document, and its words."""
