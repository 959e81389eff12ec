"""Write docs/schemas: the JSON Schemas of documents, made from their definitions. `python docs/make_schemas.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from cody.explaining.document import ExplanationDocument
from cody.explaining.even_if import EvenIf
from cody.study.audit import AuditReport
from cody.study.comparison import SurveyOutput
from cody.study.impact import Impact
from cody.study.record import Failure
from cody.study.record_file import EvaluationHeader
from cody.utils.forms import Form

TARGET = Path(__file__).parent / "schemas"
FORMS: dict[str, type[Form]] = {
    "explanation": ExplanationDocument,
    "even-if": EvenIf,
    "evaluation": EvaluationHeader,
    "failure": Failure,
    "impact": Impact,
    "audit": AuditReport,
    "survey": SurveyOutput,
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
CHECKSUM = {"type": "string", "description": "of all other fields; a document of another program needs none"}


def schema(form: type[Form]) -> dict[str, Any]:
    """The JSON Schema of a document, which may have a checksum besides the fields of its form."""
    made = msgspec.json.schema(form)
    made["$defs"][form.__name__]["properties"]["checksum"] = CHECKSUM
    return {"$schema": DIALECT, **made}


def files() -> dict[Path, str]:
    """Each file and its content."""
    return {TARGET / f"{name}.json": json.dumps(schema(form), indent=1) + "\n" for name, form in FORMS.items()}


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    for file, content in files().items():
        file.write_text(content, encoding="utf-8")
