"""The command `account`: records in = results + what was left out, dropped, undecodable or waits, to the unit."""

from ....state.tables.warehouse import Warehouse
from ...settings.topology_loading import load_topology
from ...text_tables import print_json, print_table
from .. import options
from ..command import argument, command
from ..exit_codes import ExitCode
from ..output_account import account_of


@command()
@argument("output", metavar="OUTPUT", help="an output of the topology")
@options.topology_option(options.TOPOLOGY, required=True)
@options.warehouse
@options.pipeline
@options.as_json
def account(output: str, topology: str, warehouse: str, pipeline: str, as_json: bool) -> int:
    """Say where the records of an output have gone, sub-topology by sub-topology. The exit code is 4 when one is not
    accounted for.
    """
    accounted = account_of(Warehouse(warehouse), pipeline, load_topology(topology, warehouse), output)
    if as_json:
        print_json(accounted.to_json())
    else:
        print_table(accounted.lines(), thousands=True, wide=True)
        increments = f"{accounted.increments:,} {'increment' if accounted.increments == 1 else 'increments'}"
        print(f"{increments}: {'all is accounted for' if accounted.balance else 'NOT BALANCED'}")
    return ExitCode.DONE if accounted.balance else ExitCode.FAILED
