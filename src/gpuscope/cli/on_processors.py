"""`gpuscope predict model.onnx --on this-cpu`: a graph on processors, one run each."""

from __future__ import annotations

from gpuscope import api
from gpuscope.cli.prediction import Request, check_options
from gpuscope.cli.progress import progress
from gpuscope.cli.results import Outputs, Result, check_outputs, show_result, write_result
from gpuscope.document.text import Text
from gpuscope.errors import InvalidValueError
from gpuscope.hardware.names import is_processor
from gpuscope.views.i18n import tr


def run_on_processors(request: Request, outputs: Outputs) -> None:
    """Predict, print, write.

    Raises:
        InvalidValueError: processors among devices, or an option for devices alone.
    """
    check_outputs(outputs)
    check_options(request.options)
    _refuse(request)
    runs = []
    with progress(outputs.quiet) as say:
        for name in request.targets:
            say(tr("Predicting on {device} …", outputs.lang, device=name))
            runs.append(
                api.predict(request.workload, name, options=request.options, strict=request.strict)
            )
    result = Result(tuple(runs))
    write_result(result, outputs)
    show_result(result, outputs)


def _refuse(request: Request) -> None:
    other = next((name for name in request.targets if not is_processor(name)), None)
    if other is not None:
        raise InvalidValueError(
            Text("{name} is no processor: both sorts are not predicted together.", name=other),
            "",
            Text("Predict one, then the other."),
        )
    for option, given in (
        ("--set", request.settings),
        ("--sweep", request.sweep),
        ("--what-if", request.what_if),
        ("--calibration", request.calibration),
        ("--must-fit", request.must_fit),
    ):
        if given:
            raise InvalidValueError(
                Text("On a processor {option} has no meaning.", option=option),
                Text("It is about a device."),
                Text("Leave it out."),
            )
