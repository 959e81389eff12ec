"""The tables and figures of the paper's evaluation, from records, and the paper's own numbers beside them."""
