"""After littlehorse-enterprises/littlehorse, the topology of its server: a workflow engine by the Processor API alone.
Commands start runs of workflows and report what became of their tasks; each run goes from node to node of its
specification, which a global store has.

The loop: what must happen later is a timer, of which a second processor takes care by the wall clock; when it is due,
the command in it is written to the topic of commands. Its workflows are chains of tasks and pauses here.
"""

from kstreams_replay import Consumed, KeyValues, Processor, PunctuationType, Record, Serde, Topology

TEXT = Serde.string()
_COMMAND = "kind string, spec string, node int, attempt int"
COMMAND = Serde.json(_COMMAND)
TIMER = Serde.json(f"matures_ms long, run string, command struct<{_COMMAND}>")
TASK = Serde.json("run string, node int, attempt int")
SPEC = Serde.json("array<struct<kind string, task string, seconds int, retries int>>")
RUN = Serde.json("spec string, node int, attempt int, status string")
ROUTED = Serde.json(
    f"timer struct<matures_ms long, run string, command struct<{_COMMAND}>>, "
    "task struct<run string, node int, attempt int>, task_def string, "
    "status struct<spec string, node int, attempt int, status string>"
)
NOTHING = {"timer": None, "task": None, "task_def": None, "status": None}
TASK_DEFS = ("charge", "ship")


class Specs(Processor):
    """Keeps the newest specification of each name in the global store."""

    def process(self, record: Record) -> None:
        self.context.store("global-metadata-store").put(record.key, record.value)


class CommandProcessor(Processor):
    """Moves runs on. A report of an attempt that is over, or of a node that a run has left, changes nothing."""

    def init(self, context):
        super().init(context)
        self.runs, self.specs = context.store("core-store"), context.store("global-metadata-store")

    def process(self, record: Record) -> None:
        command = record.value
        if command["kind"] == "run":
            self.enter(record, {"spec": command["spec"], "node": 0, "attempt": 0, "status": "RUNNING"})
            return
        run = self.runs.get(record.key)
        if run is None or run["status"] != "RUNNING":
            return
        if (run["node"], run["attempt"]) != (command["node"], command["attempt"]):
            return
        if command["kind"] in ("task-done", "sleep-done"):
            self.enter(record, run | {"node": run["node"] + 1, "attempt": 0})
        elif run["attempt"] < self.nodes(run)[run["node"]]["retries"]:  # task-failed, task-timed-out
            self.enter(record, run | {"attempt": run["attempt"] + 1})
        else:
            self.save(record, run | {"status": "ERROR"})

    def nodes(self, run):
        return self.specs.get(run["spec"]) or []

    def enter(self, record, run):
        """The run is at its node now, or behind its last."""
        if run["node"] == len(self.nodes(run)):
            self.save(record, run | {"status": "COMPLETED"})
            return
        self.save(record, run)
        node, now_ms = self.nodes(run)[run["node"]], record.timestamp_ms
        place = {"node": run["node"], "attempt": run["attempt"]}
        if node["kind"] == "task":
            task = NOTHING | {"task": {"run": record.key} | place, "task_def": node["task"]}
            self.context.forward(record.with_value(task))
        kind = "task-timed-out" if node["kind"] == "task" else "sleep-done"
        command = {"kind": kind, "spec": run["spec"]} | place
        timer = {"matures_ms": now_ms + 1000 * node["seconds"], "run": record.key, "command": command}
        self.context.forward(record.with_value(NOTHING | {"timer": timer}))

    def save(self, record, run):
        self.runs.put(record.key, run)
        self.context.forward(record.with_value(NOTHING | {"status": run}))


class Router(Processor):
    """Each thing to the one below that passes things of its kind on."""

    def process(self, record: Record) -> None:
        found = record.value
        if found["timer"] is not None:
            self.context.forward(record, child="passthrough-timer")
        elif found["task"] is not None:
            self.context.forward(record, child=f"passthrough-{found['task_def']}")
        else:
            self.context.forward(record, child="passthrough-status")


def passthrough(field):
    class Passthrough(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record.with_value(record.value[field]))

    return Passthrough


class TimerProcessor(Processor):
    """Holds timers until the clock has reached them; those that are due when they come are forwarded at once."""

    def init(self, context):
        super().init(context)
        self.timers = context.store("timer-store")
        context.schedule("1s", PunctuationType.WALL_CLOCK_TIME, self.clear)

    def process(self, record: Record) -> None:
        timer = record.value
        if timer["matures_ms"] <= self.context.current_system_time_ms():
            self.send(timer)
        else:
            self.timers.put(f"{timer['matures_ms']:020d}/{timer['run']}", timer)

    def clear(self, now_ms):
        for key, timer in self.timers.range("", f"{now_ms:020d}/~"):
            self.send(timer)
            self.timers.delete(key)

    def send(self, timer):
        self.context.forward(Record(timer["run"], timer["command"], timer["matures_ms"]))


def add_commands(topology: Topology) -> None:
    topology.add_source("core-source", Consumed(TEXT, COMMAND, others=True), "core-cmd")
    topology.add_processor("core-processor", CommandProcessor, "core-source", returns=ROUTED)
    topology.add_state_store(KeyValues("core-store", TEXT, RUN), "core-processor")
    topology.connect_processor_and_state_stores("core-processor", "global-metadata-store")
    topology.add_processor("router", Router, "core-processor")
    topology.add_processor("passthrough-timer", passthrough("timer"), "router", returns=TIMER)
    topology.add_sink("new-timer-sink", "timers", "passthrough-timer")
    for task in TASK_DEFS:
        topology.add_processor(f"passthrough-{task}", passthrough("task"), "router", returns=TASK)
        topology.add_sink(f"{task}-sink", f"tasks-{task}", f"passthrough-{task}")
    topology.add_processor("passthrough-status", passthrough("status"), "router", returns=RUN)
    topology.add_sink("status-sink", "runs", "passthrough-status")


def add_timers(topology: Topology) -> None:
    topology.add_source("timer-source", Consumed(TEXT, TIMER), "timers")
    topology.add_processor("timer-processor", TimerProcessor, "timer-source", returns=COMMAND)
    topology.add_state_store(KeyValues("timer-store", TEXT, TIMER), "timer-processor")
    topology.add_sink("matured-timer-sink", "core-cmd", "timer-processor")


def topology(*, timers_first=False) -> Topology:
    """``timers_first``: the sub-topology of timers is the one with the smaller number."""
    topology = Topology()
    specs = KeyValues("global-metadata-store", TEXT, SPEC)
    topology.add_global_store(specs, "metadata-source", Consumed(TEXT, SPEC), "metadata", "metadata-processor", Specs)
    for add in (add_timers, add_commands) if timers_first else (add_commands, add_timers):
        add(topology)
    return topology
