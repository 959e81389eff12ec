"""The page of an even-if answer."""

import html
import re

import numpy as np
import pytest
from click.testing import CliRunner

import cody
from cody.cli import app
from cody.explaining import even_if_words
from cody.models import ToyModel
from web.browser import SCHEMES, WIDTHS, axe_source, chromium, serious_faults, tab


@pytest.fixture(scope="module")
def found():
    src, dst = [0, 0, 2, 3, 0], [1, 2, 1, 1, 1]
    graph = cody.TemporalGraph.from_arrays(src=src, dst=dst, time=np.arange(5.0))
    return cody.even_if(ToyModel(graph, weights=[1, 2, -1, 0.5, 0], bias=-0.3), graph, graph.query(4))


def squares(page, kind):
    return re.findall(rf'<rect [^>]*class="{kind}[^"]*"[^>]*><title>event (\d+)</title>', page)


def test_it_says_what_the_text_says_and_draws_each_candidate(found):
    page = html.unescape(found.to_html())
    for sentence in (even_if_words.sentence(found), even_if_words.enough(found), even_if_words.certificate(found)):
        assert sentence in page
    assert squares(page, "kept") == list(map(str, found.kept_rows))
    others = sorted(set(found.candidates) - set(found.kept_rows))
    assert squares(page, "missing") == list(map(str, others))


def test_where_everything_could_be_missing_nothing_is_listed():
    graph = cody.TemporalGraph.from_arrays(src=[0, 0], dst=[1, 1], time=[1.0, 2.0])
    found = cody.even_if(ToyModel(graph, weights=[1, 0], bias=0.5), graph, graph.query(1))
    page = found.to_html()
    assert "Even without 1 past event" in page
    assert squares(page, "missing") == ["0"]
    assert "What it rests on" not in page


def test_the_command_writes_it_and_refuses_it_for_many_links(tmp_path):
    page = tmp_path / "even.html"
    asked = ["explain", "--event", "53869", "--even-if", "--html", str(page)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "Even without 63 of 64 past messages" in page.read_text(encoding="utf-8")
    refused = CliRunner().invoke(app, ["explain", "--events", "53869,53854", "--even-if", "--html", str(page)])
    assert "leave out --events" in str(refused.exception)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_fits_every_width_and_axe_finds_no_serious_fault(found, tmp_path, request, scheme):
    source = axe_source(request.config.cache.mkdir("axe"))
    with chromium() as browser:
        for width in WIDTHS:
            with tab(
                browser, color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True
            ) as watched:
                page = watched.open(found, tmp_path)
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                assert serious_faults(page, source) == []
