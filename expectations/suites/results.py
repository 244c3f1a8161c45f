"""What a result of Great Expectations says of one expectation: how grave it is, and whether it could be judged.

Owns both readings. Rule: an expectation that raised was not judged, and is no warning, whatever its severity.
"""

from typing import Any

CRITICAL = "critical"


def severity_of(result: Any) -> str:
    """Great Expectations' word for it; critical where an expectation has none."""
    severity = getattr(result.expectation_config, "severity", None)
    return str(getattr(severity, "value", severity) or CRITICAL)


def raised(result: Any) -> str:
    """What was raised while it was judged; "" for nothing."""
    info = result.exception_info or {}
    details = [info] if "raised_exception" in info else list(info.values())
    return "; ".join(str(each.get("exception_message")) for each in details if each.get("raised_exception"))


def is_warning(results: list[Any]) -> bool:
    """Whether some of ``results`` failed, and none of these is critical or raised."""
    failed = [each for each in results if not each.success]
    return bool(failed) and not any(raised(each) or severity_of(each) == CRITICAL for each in failed)
