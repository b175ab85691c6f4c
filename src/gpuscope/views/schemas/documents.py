"""Each document's schema: its head, and the fields of the types that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from gpuscope.advice.results import Ladder
from gpuscope.advice.trial import ladder_store
from gpuscope.analysis.compare import Comparison
from gpuscope.analysis.types import Analysis
from gpuscope.cost.types import Kernel
from gpuscope.doctor.compare import Differences
from gpuscope.doctor.types import SEVERITIES, Diagnosis, Severity
from gpuscope.document import blocks
from gpuscope.document.json_schema import DIALECT, Schemas
from gpuscope.document.plain import Json
from gpuscope.document.text import Text
from gpuscope.errors import UnknownNameError
from gpuscope.guarding.judge import Report
from gpuscope.hardware import Device
from gpuscope.learn.claims.document import CLAIMS_VERSION
from gpuscope.measurement.bench import compare as bench_compare
from gpuscope.measurement.bench import store as bench_store
from gpuscope.measurement.bench.figures import Figure as BenchFigure
from gpuscope.measurement.bench.types import BenchResult, Failure, Point
from gpuscope.run import Refused
from gpuscope.run.document import NOT_FIELDS
from gpuscope.run.figures import Figures
from gpuscope.run.types import SCHEMA_VERSION, Run
from gpuscope.serving import result as serving
from gpuscope.serving import tuning
from gpuscope.timeline.types import Events, Timeline
from gpuscope.views import devices, models, watch_energy
from gpuscope.views.doctor_document import DIAGNOSIS_VERSION
from gpuscope.views.explanation import EXPLANATION_VERSION
from gpuscope.views.schemas import shapes
from gpuscope.views.sweep import Worth
from gpuscope.watch import recording as samples

_FORMS: Json = {"type": "object", "additionalProperties": {"type": "object"}}
"""How each sentence was made (`gpuscope.document.saved_text`)."""


@dataclass(frozen=True, slots=True)
class Document:
    """A sort of document.

    Attributes:
        name: its `schema` without "gpuscope.".
        version: its `version`.
        body: its fields but those two.
        stamped: `gpuscope_version` stands in it.
        spoken: its texts are objects of their form in every language.
    """

    name: str
    version: int
    body: Callable[[Schemas], Json]
    stamped: bool = True
    spoken: bool = False


def json_schema(name: str) -> Json:
    """Return the JSON Schema (draft 2020-12) of a document.

    Args:
        name: what stands in its `schema`, with or without "gpuscope.".

    Raises:
        UnknownNameError: no document has that name.
    """
    found = DOCUMENTS.get(name.removeprefix("gpuscope."))
    if found is None:
        raise UnknownNameError(Text("document"), name, DOCUMENTS, Text("Type: gpuscope schema"))
    return {"$schema": DIALECT, "title": f"gpuscope.{found.name}", **_whole(found)}


def _whole(document: Document) -> Json:
    """A document's object, with the definitions that it needs."""
    schemas = Schemas(spoken=document.spoken)
    body = _with(_head(document), document.body(schemas))
    return body | {"$defs": schemas.definitions} if schemas.definitions else body


def _head(document: Document) -> Json:
    schema, version = {"const": f"gpuscope.{document.name}"}, {"const": document.version}
    stamp = {"gpuscope_version": {"type": "string"}} if document.stamped else {}
    return _object(schema=schema, version=version, **stamp)


def _with(first: Json, *others: Json) -> Json:
    """One object with the fields of several; a later one's take the place of an earlier one's."""
    both: Json = {"type": "object", "properties": {}, "required": []}
    for each in (first, *others):
        both["properties"] |= each["properties"]
        both["required"] += [n for n in each["required"] if n not in both["required"]]
    return both


def _object(**fields: Json) -> Json:
    return {"type": "object", "properties": fields, "required": list(fields)}


def _list(item: Json) -> Json:
    return {"type": "array", "items": item}


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _run(schemas: Schemas) -> Json:
    return _with(
        schemas.fields_of(Run, without=NOT_FIELDS),
        _object(
            figures=schemas.of(Figures),
            program=schemas.of(shapes.Captured | None),
            analysis=schemas.of(Analysis),
            timeline=_or_null(_timeline(schemas)),
            texts=_FORMS,
        ),
    )


def _timeline(schemas: Schemas) -> Json:
    kernel = _with(schemas.fields_of(Kernel, without=("op",)), _object(group={"type": "string"}))
    return _with(
        schemas.fields_of(Timeline, without=("kernels", "ops", "events")),
        _object(
            kinds=schemas.of(Sequence[str]),
            events_total={"type": "integer"},
            truncation={"type": "string"},
            events=schemas.of(Events),
            kernels=_list(kernel),
            ops=schemas.of(shapes.Operators),
        ),
    )


def _run_inside(schemas: Schemas) -> Json:
    """A run within another document, by reference."""
    if "Run" not in schemas.definitions:
        schemas.definitions["Run"] = _with(_head(_RUN), _run(schemas))
    return {"$ref": "#/$defs/Run"}


def _runs(schemas: Schemas) -> Json:
    return _object(runs=_list(_run_inside(schemas)), refused=schemas.of(Sequence[Refused]))


def _sweep(schemas: Schemas) -> Json:
    point = _object(value={"type": "number"}, run=_run_inside(schemas))
    worth = schemas.of(Sequence[Worth])
    return _object(field={"type": "string"}, points=_list(point), worth=worth)


def _comparison(schemas: Schemas) -> Json:
    return _with(schemas.fields_of(Comparison), _object(texts=_FORMS))


def _guard(schemas: Schemas) -> Json:
    return _with(_object(failed={"type": "boolean"}), schemas.fields_of(Report))


def _ladder(schemas: Schemas) -> Json:
    # The advice and the programs of its trials are not in it.
    own = schemas.fields_of(Ladder, without=("advice",))
    made_of = schemas.of(ladder_store.MadeOf)
    return _with(_object(finished={"type": "boolean"}, made_of=made_of), own)


def _serving(schemas: Schemas) -> Json:
    return _with(schemas.fields_of(serving.Serving), _object(texts=_FORMS))


def _servings(schemas: Schemas) -> Json:
    return _object(runs=_list(_with(_head(_SERVING), _serving(schemas))))


def _explanation(schemas: Schemas) -> Json:
    sorts = [
        _with(_object(block={"const": sort.__name__.lower()}), schemas.fields_of(sort))
        for sort in get_args(blocks.Block)
    ]
    section = _object(title=schemas.of(Text), blocks=_list({"anyOf": sorts}))
    schemas.definitions["Section"] = section
    sections = _list({"$ref": "#/$defs/Section"})
    sources = schemas.of(Sequence[str | Text])  # most are titles, which no language translates
    own = schemas.fields_of(blocks.Explanation, ("sections", "sources"))
    return _with(own, _object(sections=sections, sources=sources))


def _book(schemas: Schemas) -> Json:
    title, about = schemas.of(Text), schemas.of(Text | None)
    return _object(title=title, about=about, chapters=_list(_explanation(schemas)))


def _claims(schemas: Schemas) -> Json:
    claims = schemas.of(Sequence[shapes.ClaimEntry])
    return _object(claims=claims, counts=schemas.of(Mapping[str, int]))


def _diagnosis(schemas: Schemas) -> Json:
    counts = _object(**{severity: {"type": "integer"} for severity in SEVERITIES})
    return _with(_object(worst=schemas.of(Severity), counts=counts), schemas.fields_of(Diagnosis))


def _differences(schemas: Schemas) -> Json:
    return schemas.fields_of(Differences)


def _checks(schemas: Schemas) -> Json:
    return _object(checks=schemas.of(Sequence[shapes.CheckEntry]))


def _models(schemas: Schemas) -> Json:
    return _object(models=schemas.of(Sequence[shapes.ModelEntry]))


def _cache(schemas: Schemas) -> Json:
    return _object(
        folder=schemas.of(str | None),
        limit_bytes={"type": "integer"},
        removed=schemas.of(int | None),
        programs=schemas.of(Sequence[shapes.KeptEntry]),
    )


def _devices(schemas: Schemas) -> Json:
    hints = get_type_hints(Device)
    figures = {name: schemas.of(hints.get(name, Any)) for name in devices.figure_fields()}
    text, texts = schemas.of(str), schemas.of(Sequence[str])
    link = schemas.of(shapes.DeviceLink | None)
    rates = schemas.of(Mapping[str, float])
    device = _object(id=text, name=text, confidence=text, **figures)
    rest = _object(
        compute_unit_label=text,
        peak_flops_per_s=rates,
        dtypes=texts,
        host_link=link,
        scale_up=link,
        scale_out=link,
        origins=schemas.of(Mapping[str, str]),
        sources=schemas.of(Mapping[str, Sequence[str]]),
        doubtful=texts,
        notes=texts,
    )
    return _object(devices=_list(_with(device, rest)))


def _bench(schemas: Schemas) -> Json:
    rate = schemas.of(float | None)
    more = _object(fraction=rate, flops_per_s=rate, bytes_per_s=rate)
    failure = _with(schemas.fields_of(Failure, ("reason",)), _object(error={"type": "string"}))
    headlines = {n: {"type": "string"} for n in ("headline", "headline_zh")}
    return _with(
        schemas.fields_of(BenchResult, ("points", "failures")),
        _object(
            **headlines,
            figures=schemas.of(Sequence[BenchFigure]),
            points=_list(_with(schemas.fields_of(Point), more)),
            failures=_list(failure),
        ),
    )


def _bench_comparison(schemas: Schemas) -> Json:
    by_clock, ratio = _object(by_clock={"type": "boolean"}), _object(ratio=schemas.of(float))
    group = _list(_with(schemas.fields_of(bench_compare.Group), by_clock))
    outlier = _with(schemas.fields_of(bench_compare.PointDifference), ratio)
    return _with(
        schemas.fields_of(bench_compare.BenchComparison),
        _object(
            noise_share={"type": "number"},
            same_device={"type": "boolean"},
            families=group,
            bounds=group,
            outliers=_list(outlier),
        ),
    )


def _energy(schemas: Schemas) -> Json:
    return _object(
        command=schemas.of(Sequence[str]),
        exit_code={"type": "integer"},
        seconds={"type": "number"},
        **{n: schemas.of(float | None) for n in ("energy_j", "average_w", "co2_g", "cost_usd")},
        complete={"type": "boolean"},
        grid=schemas.of(shapes.Grid),
        price_usd_per_kwh=schemas.of(float | None),
        devices=schemas.of(Sequence[shapes.Used]),
        host=schemas.of(shapes.Used | None),
    )


def _samples(schemas: Schemas) -> Json:
    number: Json = {"type": "number"}
    found = _object(unix_s=number, host={"type": "string"}, host_cpu=number)
    found["required"].remove("host_cpu")
    return _with(found, _object(devices=schemas.of(Sequence[shapes.SampledDevice])))


def _tuning(schemas: Schemas) -> Json:
    return schemas.fields_of(tuning.Tuning)


_RUN = Document("run", SCHEMA_VERSION, _run)
_SERVING = Document("serving", serving.SCHEMA_VERSION, _serving)

DOCUMENTS: Mapping[str, Document] = {
    each.name: each
    for each in (
        _RUN,
        Document("runs", SCHEMA_VERSION, _runs),
        Document("sweep", SCHEMA_VERSION, _sweep),
        Document("comparison", SCHEMA_VERSION, _comparison),
        Document("guard", 1, _guard, stamped=False),
        Document("ladder", ladder_store.LADDER_VERSION, _ladder, spoken=True),
        Document("explanation", EXPLANATION_VERSION, _explanation, spoken=True),
        Document("book", EXPLANATION_VERSION, _book, spoken=True),
        Document("claims", CLAIMS_VERSION, _claims, spoken=True),
        _SERVING,
        Document("servings", 1, _servings, stamped=False),
        Document("serving_calibration", tuning.VERSION, _tuning),
        Document("bench", bench_store.VERSION, _bench),
        Document("bench_comparison", 1, _bench_comparison, stamped=False),
        Document("diagnosis", DIAGNOSIS_VERSION, _diagnosis, spoken=True),
        Document("machine_differences", DIAGNOSIS_VERSION, _differences, spoken=True),
        Document("checks", 1, _checks, stamped=False),
        Document("samples", samples.VERSION, _samples, stamped=False, spoken=True),
        Document("energy", watch_energy.VERSION, _energy, stamped=False),
        Document("devices", devices.SCHEMA_VERSION, _devices, stamped=False),
        Document("models", models.SCHEMA_VERSION, _models, stamped=False),
        Document("cache", 1, _cache, stamped=False),
    )
}
"""By the name in `schema`, without "gpuscope."."""
