"""Pages of explanations and surveys, each one self-contained file, and the server with a model behind them."""

from typing import TYPE_CHECKING

from cody.utils import lazy

if TYPE_CHECKING:
    from cody.web.app import create_app
    from cody.web.drawing import check_figure_file, figure, write_figure
    from cody.web.file import check_page_file, write_html, write_page
    from cody.web.live import Limits, Live
    from cody.web.page import frame, page

__all__ = [
    "Limits",
    "Live",
    "check_figure_file",
    "check_page_file",
    "create_app",
    "figure",
    "frame",
    "page",
    "write_figure",
    "write_html",
    "write_page",
]

lazy.import_on_demand(
    __name__,
    {
        "cody.web.app": "create_app",
        "cody.web.drawing": "check_figure_file figure write_figure",
        "cody.web.file": "check_page_file write_html write_page",
        "cody.web.live": "Limits Live",
        "cody.web.page": "frame page",
    },
)
