"""The command `doctor`: does this machine have what a replay needs. Rule: it leaves nothing behind."""

from dataclasses import asdict

from ...text_tables import print_json, print_table
from .. import options
from ..command import command, option
from ..exit_codes import ExitCode
from ..machine_checks import OK, WRONG, look_at_machine


@command()
@options.warehouse_if_any
@option("--kafka", metavar="SERVERS", help="bootstrap servers, as in broker-1:9092,broker-2:9092, that must answer")
@options.client_settings
@option("--registry", metavar="URL", help="a schema registry that must answer")
@options.as_json
def doctor(
    warehouse: str | None, kafka: str | None, settings: tuple[str, ...], kafka_config: str | None,
    registry: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Look at Python, packages, Java, memory, disks, clock, storage, brokers and the registry, and say what to do.

    The exit code is 4 when something is wrong. Nothing is changed.
    """
    findings = list(look_at_machine(warehouse, kafka, registry, options.client_settings_of(kafka_config, settings)))
    if as_json:
        print_json({"findings": [asdict(each) for each in findings]})
    else:
        print_table([asdict(each) for each in findings], ["check", "verdict", "found"], wide=True)
        for each in findings:
            if each.verdict != OK and each.next_step:
                print(f"{each.check}: {each.next_step}")
    return ExitCode.FAILED if any(each.verdict == WRONG for each in findings) else ExitCode.DONE
