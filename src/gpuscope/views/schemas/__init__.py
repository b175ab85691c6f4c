"""JSON Schemas of the documents that `--json` prints, made from the types that write them."""

from gpuscope.views.schemas.documents import DOCUMENTS, json_schema

__all__ = ["DOCUMENTS", "json_schema"]
