"""One page that shows a counterfactual: a self-contained HTML file that asks nobody for anything."""

from cody.view.file import check_page_file, write_html, write_page
from cody.view.page import frame, page

__all__ = ["check_page_file", "frame", "page", "write_html", "write_page"]
