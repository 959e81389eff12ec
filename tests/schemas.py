"""The JSON Schemas in the documentation, as validators of documents."""

import json
from pathlib import Path

import jsonschema

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"


def validator(name):
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
