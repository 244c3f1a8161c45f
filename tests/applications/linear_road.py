"""After twiechert/kafka-streams-linearroad: the Linear Road benchmark. Cars report where they are every 30 seconds. A
car that enters a segment is notified of its toll and of accidents ahead. The toll depends on how many cars were there
in the minute before, and how fast they were. What each car has paid can be asked for.

Where the application reads its own topics with an extractor that gives a record the time of its minute, a processor
gives it that time before it is written. Its window of the average speed, five minutes that begin every minute but
fewer at the start, is a hopping window whose end is computed.
"""

from kstreams_replay import (
    Consumed,
    FixedKeyProcessor,
    JoinWindows,
    KeyValues,
    Processor,
    Record,
    Serde,
    StreamsBuilder,
    TimeWindows,
    Topology,
    fold,
)

MINUTE_MS = 60_000
EXIT_LANE = 4

SEGMENT = Serde.json("xway int, seg int, dir int")
CAR = Serde.json("vid int, xway int, dir int")
PLACE = Serde.json("xway int, lane int, seg int, dir int, pos int")
REPORT = Serde.json("time_s long, vid int, speed int, lane int, pos int")
CROSSING = Serde.json("time_s long, seg int, lane int, predecessor_s long")
STOPPED = Serde.json("minute long, end_minute long, reports map<string, int>")
SPEED = Serde.json("minute long, end_minute long, speed double")
CARS = Serde.json("minute long, cars int")
ACCIDENT = Serde.json("minute long")
TOLL = Serde.json("minute long, toll double, speed double")
ENTERED = Serde.json("minute long, time_s long, vid int, lane int")
TOLL_NOTIFICATION = Serde.json("vid int, time_s long, speed double, toll double")
ACCIDENT_NOTIFICATION = Serde.json("time_s long, seg int")
LONG, DOUBLE = Serde.long(), Serde.double()

SAME_TIME = JoinWindows.of_time_difference_and_grace(0, "5m")
AT_ONCE = JoinWindows.of(0).grace("5m")
"""The application has the left joins of Kafka Streams 3.0: what has no match yet is forwarded alone at once."""


def minute_of(seconds):
    """The minute that ends at these seconds, or after them."""
    return -(-seconds // 60)


class AtItsMinute(FixedKeyProcessor):
    """Forwards a record at the time of its minute."""

    def process(self, record):
        self.context.forward(record.with_timestamp(record.value["minute"] * MINUTE_MS))


class OnMinuteChange(Processor):
    """Holds the newest value of a key and minute back, until a later value says that the minute is over."""

    def __init__(self, store):
        self.name = store

    def init(self, context):
        super().init(context)
        self.newest = context.store(self.name)

    def process(self, record: Record) -> None:
        minute = record.value["minute"]
        ends = record.value.get("end_minute", minute)
        self.newest.put(record.key | {"minute": ends}, record.value)
        for before in (minute - 1, minute - 2):
            value = self.newest.delete(record.key | {"minute": before})
            if value is not None:
                self.context.forward(record.with_value(value))


def on_minute_change(stream, name, key_fields, value):
    store = KeyValues(name, Serde.json(f"{key_fields}, minute long"), value)
    return stream.process(lambda: OnMinuteChange(name), [store], returns=value)


# --- what is known of segments -------------------------------------------------------------------------------


def reports_of(builder):
    consumed = Consumed(SEGMENT, REPORT, timestamp_extractor="time_s * 1000")
    return builder.stream("positions", consumed)


def accidents(builder):
    """An accident is two cars that do not move for four reports. It concerns its segment and the four before."""

    def add(place, report, stopped):
        reports = dict(stopped["reports"])
        reports[str(report["vid"])] = reports.get(str(report["vid"]), 0) + 1
        return {"minute": minute_of(report["time_s"]), "end_minute": 0, "reports": reports}

    def place_of(segment, report):
        return segment | {"lane": report["lane"], "pos": report["pos"]}

    stopped = (
        reports_of(builder)
        .filter("speed = 0")
        .group_by(place_of, returns=PLACE)
        .windowed_by(TimeWindows.of_size("2m", grace="1m").advance_by("30s"))
        .aggregate(lambda: {"minute": 0, "end_minute": 0, "reports": {}}, add, returns=STOPPED)
        .to_stream()
        .map(
            lambda place, stopped: (place.key, stopped | {"end_minute": minute_of(place.window_end_ms // 1000)}),
            returns_key=PLACE,
            returns=STOPPED,
        )
        .filter(lambda place, stopped: sum(count >= 4 for count in stopped["reports"].values()) >= 2)
    )
    emitted = on_minute_change(stopped, "latest-acc", "xway int, lane int, seg int, dir int, pos int", STOPPED)

    def upstream(place, stopped):
        segment = {"xway": place["xway"], "dir": place["dir"]}
        accident = {"minute": stopped["end_minute"]}
        return [(segment | {"seg": max(0, place["seg"] - back)}, accident) for back in range(5)]

    emitted = emitted.flat_map(upstream, returns_key=SEGMENT, returns=ACCIDENT)
    emitted.process_values(AtItsMinute).to("accidents")
    return builder.stream("accidents", Consumed(SEGMENT, ACCIDENT))


def average_speeds(builder):
    """Of the last five minutes, or of those that there were."""

    def end_minute(window, time_ms):
        if window.window_start_ms == 0 and time_ms < 5 * MINUTE_MS:
            return minute_of(time_ms // 1000)
        return minute_of(window.window_end_ms // 1000)

    def average(window, found):
        ends = end_minute(window, found["time_s"] * 1000)
        return window.key, {"minute": minute_of(found["time_s"]), "end_minute": ends, "speed": found["speed"]}

    speeds = (
        reports_of(builder)
        .group_by_key()
        .windowed_by(TimeWindows.of_size("5m", grace="1m").advance_by("1m"))
        .aggregate(time_s=fold.last("time_s"), speed=fold.mean("speed"))
        .to_stream()
        .map(average, returns_key=SEGMENT, returns=SPEED)
    )
    emitted = on_minute_change(speeds, "latest-lav", "xway int, seg int, dir int", SPEED)
    of_end = emitted.map_values(minute="end_minute", end_minute="end_minute", speed="speed")
    of_end.process_values(AtItsMinute).to("average-speeds")
    return builder.stream("average-speeds", Consumed(SEGMENT, SPEED))


def numbers_of_cars(builder):
    cars = (
        reports_of(builder)
        .group_by_key()
        .windowed_by(TimeWindows.of_size("1m", grace="1m"))
        .aggregate(cars=fold.count_distinct("vid"))
        .to_stream()
        .map(
            lambda window, found: (
                window.key,
                {"minute": minute_of(window.window_end_ms // 1000), "cars": found["cars"]},
            ),
            returns_key=SEGMENT,
            returns=CARS,
        )
    )
    emitted = on_minute_change(cars, "latest-nov", "xway int, seg int, dir int", CARS)
    emitted.process_values(AtItsMinute).to("numbers-of-cars")
    return builder.stream("numbers-of-cars", Consumed(SEGMENT, CARS))


def tolls(builder, least_cars):
    """Of a segment in the minute after: where more than ``least_cars`` were slower than 40 and nothing had happened."""
    cars, speeds, found = numbers_of_cars(builder), average_speeds(builder), accidents(builder)
    (
        cars.join(speeds, minute="left.minute", cars="left.cars", speed="right.speed", windows=SAME_TIME)
        .left_join(
            found,
            minute="left.minute",
            cars="left.cars",
            speed="left.speed",
            is_free="right.minute IS NULL",
            windows=AT_ONCE,
        )
        .filter(f"is_free AND speed < 40 AND cars > {least_cars}")
        .map_values(minute="minute + 1", toll=f"2e0 * (cars - {least_cars}) * (cars - {least_cars})", speed="speed")
        .process_values(AtItsMinute)
        .to("current-tolls")
    )
    return builder.stream("current-tolls", Consumed(SEGMENT, TOLL))


# --- what cars are told --------------------------------------------------------------------------------------


def crossings(builder):
    """The first report of a car in each segment, with the time of the one before."""

    def of_car(shift_s):
        def shifted(segment, report):
            car = {"vid": report["vid"], "xway": segment["xway"], "dir": segment["dir"]}
            time_s = report["time_s"] + shift_s
            return car, {"time_s": time_s, "seg": segment["seg"], "lane": report["lane"], "predecessor_s": None}

        return shifted

    class AtItsSecond(FixedKeyProcessor):
        def process(self, record):
            self.context.forward(record.with_timestamp(record.value["time_s"] * 1000))

    reports = reports_of(builder)
    now = reports.map(of_car(0), returns_key=CAR, returns=CROSSING)
    before = reports.map(of_car(30), returns_key=CAR, returns=CROSSING).process_values(AtItsSecond)
    (
        now.left_join(
            before,
            time_s="left.time_s",
            seg="left.seg",
            lane="left.lane",
            is_new="right.seg IS NULL OR left.seg <> right.seg",
            windows=AT_ONCE,
        )
        .filter("is_new")
        .group_by_key()
        .aggregate(
            lambda: {"time_s": None},
            lambda car, new, last: {
                "time_s": new["time_s"],
                "seg": new["seg"],
                "lane": new["lane"],
                "predecessor_s": last["time_s"],
            },
            returns=CROSSING,
        )
        .to_stream()
        .to("segment-crossings")
    )
    return builder.stream("segment-crossings", Consumed(CAR, CROSSING))


def by_segment(crossed, back, minute):
    """Crossings by the segment ``back`` before the new one, at the minute that ``minute`` gives."""

    def entered(car, crossing):
        segment = {"xway": car["xway"], "seg": crossing["seg"] - back, "dir": car["dir"]}
        of_car = {"time_s": crossing["time_s"], "vid": car["vid"], "lane": crossing["lane"]}
        return segment, {"minute": max(0, minute(crossing))} | of_car

    return crossed.map(entered, returns_key=SEGMENT, returns=ENTERED).process_values(AtItsMinute)


def toll_notifications(crossed, tolls_of_segments):
    entered = by_segment(crossed.filter(f"lane <> {EXIT_LANE}"), 0, lambda crossing: minute_of(crossing["time_s"]))
    (
        entered.join(
            tolls_of_segments,
            vid="left.vid",
            time_s="left.time_s",
            speed="right.speed",
            toll="right.toll",
            windows=SAME_TIME,
        ).to("toll-notifications")
    )


def accident_notifications(crossed, found):
    entered = by_segment(crossed, 0, lambda crossing: minute_of(crossing["time_s"]) - 1)
    told = found.join(entered, time_s="right.time_s", lane="right.lane", windows=SAME_TIME)
    told.filter(f"lane <> {EXIT_LANE}").map(
        lambda segment, entered: (None, {"time_s": entered["time_s"], "seg": segment["seg"]}),
        returns_key=SEGMENT,
        returns=ACCIDENT_NOTIFICATION,
    ).to("accident-notifications")


def expenditures(crossed, tolls_of_segments):
    """What each car has paid for the segments that it left."""
    left = by_segment(crossed, 1, lambda crossing: minute_of(crossing["predecessor_s"] or 0))
    paid = left.join(tolls_of_segments, vid="left.vid", toll="right.toll", windows=SAME_TIME)
    return paid.group_by("vid").aggregate(fold.sum("toll"))


def balances(builder, paid):
    requests = builder.stream("account-balance-requests", Consumed(Serde.int(), Serde.json("time_s long, query int")))
    asked = requests.left_join(paid, time_s="left.time_s", query="left.query", paid="COALESCE(right, 0e0)")
    asked.to("account-balances")


def daily_expenditures(builder):
    history = builder.table("toll-history", Consumed(Serde.json("xway int, vid int, day int"), DOUBLE))
    requests = builder.stream(
        "daily-expenditure-requests", Consumed(Serde.int(), Serde.json("query int, xway int, day int"))
    )

    def asked_for(vid, request):
        return {"xway": request["xway"], "vid": vid, "day": request["day"]}

    by_day = requests.select_key(asked_for, returns=Serde.json("xway int, vid int, day int"))
    by_day.left_join(history, query="left.query", paid="COALESCE(right, 0e0)").to("daily-expenditures")


def topology(*, least_cars=50) -> Topology:
    builder = StreamsBuilder()
    tolls_of_segments = tolls(builder, least_cars)
    crossed = crossings(builder)
    toll_notifications(crossed, tolls_of_segments)
    accident_notifications(crossed, builder.stream("accidents", Consumed(SEGMENT, ACCIDENT)))
    balances(builder, expenditures(crossed, tolls_of_segments))
    daily_expenditures(builder)
    return builder.build()
