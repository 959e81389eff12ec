"""Write docs/schemas: the JSON Schemas of documents, and the OpenAPI document of the server, from their definitions.

Run `python docs/make_schemas.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from cody.explaining.document import ExplanationDocument
from cody.explaining.even_if import EvenIf
from cody.graph import TemporalGraph
from cody.models import ToyModel
from cody.study.audit import AuditReport
from cody.study.causes import SharedCauses
from cody.study.comparison import SurveyOutput
from cody.study.impact import Impact
from cody.study.record import Failure
from cody.study.record_file import EvaluationHeader
from cody.utils.forms import Form
from cody.web import Live, create_app

TARGET = Path(__file__).parent / "schemas"
FORMS: dict[str, type[Form]] = {
    "explanation": ExplanationDocument,
    "even-if": EvenIf,
    "evaluation": EvaluationHeader,
    "failure": Failure,
    "impact": Impact,
    "audit": AuditReport,
    "causes": SharedCauses,
    "survey": SurveyOutput,
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
CHECKSUM = {"type": "string", "description": "of all other fields; a document of another program needs none"}


def schema(form: type[Form]) -> dict[str, Any]:
    """The JSON Schema of a document, which may have a checksum besides the fields of its form."""
    made = msgspec.json.schema(form)
    made["$defs"][form.__name__]["properties"]["checksum"] = CHECKSUM
    return {"$schema": DIALECT, **made}


def api() -> dict[str, Any]:
    """The OpenAPI document of `cody serve`. It says nothing of the model or the data."""
    graph = TemporalGraph.from_arrays([0], [1], [0.0])
    described: dict[str, Any] = create_app(Live(graph, ToyModel(graph))).app.openapi()
    return described


def files() -> dict[Path, str]:
    """Each file and its content."""
    openapi = {TARGET / "openapi.json": json.dumps(api(), indent=1) + "\n"}
    return openapi | {
        TARGET / f"{name}.json": json.dumps(schema(form), indent=1) + "\n" for name, form in FORMS.items()
    }


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for file, content in files().items():
        file.write_text(content, encoding="utf-8")
