import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.Set;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;

/** Nexmark's queries for Kafka Streams: the twins of benchmarks/nexmark/queries.py, one method each. */
public class Nexmark {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Serde<Long> L = Serdes.Long();
    static final Serde<String> S = Serdes.String();
    static final Serde<JsonNode> J = Serdes.serdeFrom((topic, node) -> written(node), (topic, bytes) -> read(bytes));
    static final long DAY_MS = 86_400_000;
    static final Duration TEN_SECONDS = Duration.ofSeconds(10);
    static final String[] BID = {"auction", "bidder", "price", "date_time"};

    static byte[] written(JsonNode node) {
        try {
            return node == null ? null : JSON.writeValueAsBytes(node);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    static JsonNode read(byte[] bytes) {
        try {
            return bytes == null ? null : JSON.readTree(bytes);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    static ObjectNode pick(JsonNode from, String... names) {
        ObjectNode found = JSON.createObjectNode();
        for (String name : names) found.set(name, from.get(name));
        return found;
    }

    static long number(JsonNode node, String name) {
        return node.get(name).asLong();
    }

    static ObjectNode zeros(String... names) {
        ObjectNode found = JSON.createObjectNode();
        for (String name : names) found.put(name, 0L);
        return found;
    }

    static ObjectNode plus(JsonNode node, String name, long more) {
        return node.<ObjectNode>deepCopy().put(name, number(node, name) + more);
    }

    static KStream<Long, JsonNode> stream(StreamsBuilder builder, String topic) {
        return builder.stream(topic, Consumed.with(L, J));
    }

    static KTable<Long, JsonNode> table(StreamsBuilder builder, String topic) {
        return builder.table(topic, Consumed.with(L, J));
    }

    static KStream<Long, JsonNode> bids(StreamsBuilder builder) {
        return stream(builder, "bid");
    }

    static <K> Materialized<K, JsonNode, org.apache.kafka.streams.state.WindowStore<org.apache.kafka.common.utils.Bytes, byte[]>>
            windowed(Serde<K> key) {
        return Materialized.with(key, J);
    }

    static <K> Materialized<K, JsonNode, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>
            keyed(Serde<K> key) {
        return Materialized.with(key, J);
    }

    static TimeWindows windows(Duration size) {
        return TimeWindows.ofSizeWithNoGrace(size);
    }

    static <K> KStream<Windowed<K>, JsonNode> closed(KTable<Windowed<K>, JsonNode> table) {
        return table.suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded())).toStream();
    }

    static <K> Produced<Windowed<K>, JsonNode> to(Class<K> key, long sizeMs) {
        return Produced.with(WindowedSerdes.timeWindowedSerdeFrom(key, sizeMs), J);
    }

    public static void q0(StreamsBuilder builder) {
        bids(builder).mapValues(bid -> (JsonNode) pick(bid, "auction", "bidder", "price", "date_time", "extra"))
            .to("q0", Produced.with(L, J));
    }

    public static void q1(StreamsBuilder builder) {
        bids(builder).mapValues(bid -> (JsonNode) pick(bid, "auction", "bidder", "date_time", "extra")
            .put("price", number(bid, "price") * 0.908)).to("q1", Produced.with(L, J));
    }

    public static void q2(StreamsBuilder builder) {
        bids(builder).filter((key, bid) -> number(bid, "auction") % 123 == 0)
            .mapValues(bid -> (JsonNode) pick(bid, "auction", "price")).to("q2", Produced.with(L, J));
    }

    public static void q3(StreamsBuilder builder) {
        KTable<Long, JsonNode> auctions = table(builder, "auction").filter((key, auction) -> number(auction, "category") == 10);
        KTable<Long, JsonNode> people = table(builder, "person")
            .filter((key, person) -> Set.of("OR", "ID", "CA").contains(person.get("state").asText()));
        auctions.join(people, auction -> number(auction, "seller"),
                (auction, person) -> (JsonNode) pick(person, "name", "city", "state").put("auction", number(auction, "id")),
                keyed(L))
            .toStream().to("q3", Produced.with(L, J));
    }

    static KStream<Long, JsonNode> bidsInTime(StreamsBuilder builder) {
        KTable<Long, JsonNode> auctions = table(builder, "auction");
        return bids(builder)
            .join(auctions, (bid, auction) -> (JsonNode) pick(bid, BID).put("opened", number(auction, "date_time"))
                .put("expires", number(auction, "expires")).put("category", number(auction, "category")), Joined.with(L, J, J))
            .filter((key, bid) -> number(bid, "opened") <= number(bid, "date_time")
                && number(bid, "date_time") <= number(bid, "expires"));
    }

    public static void q4(StreamsBuilder builder) {
        bidsInTime(builder).groupByKey(Grouped.with(L, J))
            .aggregate(() -> (JsonNode) zeros("final"), (key, bid, won) -> JSON.createObjectNode()
                .put("final", Math.max(number(won, "final"), number(bid, "price"))).put("category", number(bid, "category")), keyed(L))
            // Kafka takes the initial value, which has no category, for the old one of a new key; without a key it is left out
            .groupBy((auction, won) -> KeyValue.pair(won.has("category") ? (Long) number(won, "category") : null, won),
                Grouped.with(L, J))
            .aggregate(() -> (JsonNode) zeros("total", "auctions"),
                (key, won, all) -> plus(plus(all, "total", number(won, "final")), "auctions", 1),
                (key, won, all) -> plus(plus(all, "total", -number(won, "final")), "auctions", -1), keyed(L))
            .toStream().to("q4", Produced.with(L, J));
    }

    public static void q5(StreamsBuilder builder) {
        KTable<Windowed<Long>, JsonNode> counts = bids(builder).groupByKey(Grouped.with(L, J))
            .windowedBy(windows(TEN_SECONDS).advanceBy(Duration.ofSeconds(2)))
            .aggregate(() -> (JsonNode) zeros("bids"), (key, bid, count) -> plus(count, "bids", 1), windowed(L));
        closed(counts)
            .map((window, count) -> KeyValue.pair(window.window().start(), (JsonNode) plus(count, "bids", 0).put("auction", window.key())))
            .groupByKey(Grouped.with(L, J))
            .aggregate(() -> (JsonNode) zeros("bids", "auctions", "auction"), (start, count, best) -> hottest(count, best), keyed(L))
            .toStream().to("q5", Produced.with(L, J));
    }

    static JsonNode hottest(JsonNode count, JsonNode best) {
        long more = number(count, "bids") - number(best, "bids");
        if (more < 0) return best;
        if (more > 0) return pick(count, "bids", "auction").put("auctions", 1L);
        return plus(best, "auctions", 1).put("auction", Math.min(number(best, "auction"), number(count, "auction")));
    }

    static JsonNode best(JsonNode bid, JsonNode best, String... names) {
        return best.has("price") && number(best, "price") >= number(bid, "price") ? best : pick(bid, names);
    }

    public static void q7(StreamsBuilder builder) {
        closed(bids(builder).groupBy((key, bid) -> 0L, Grouped.with(L, J)).windowedBy(windows(TEN_SECONDS))
            .aggregate(() -> (JsonNode) JSON.createObjectNode(), (key, bid, best) -> best(bid, best, BID), windowed(L)))
            .to("q7", to(Long.class, 10_000));
    }

    public static void q8(StreamsBuilder builder) {
        KStream<Long, JsonNode> sold = stream(builder, "auction").selectKey((key, auction) -> number(auction, "seller"));
        KStream<Long, JsonNode> same = stream(builder, "person")
            .join(sold, (person, auction) -> (JsonNode) pick(person, "name").put("registered", number(person, "date_time"))
                .put("sold", number(auction, "date_time")), JoinWindows.ofTimeDifferenceWithNoGrace(TEN_SECONDS), StreamJoined.with(L, J, J))
            .filter((key, pair) -> number(pair, "registered") / 10_000 == number(pair, "sold") / 10_000);
        closed(same.groupByKey(Grouped.with(L, J)).windowedBy(windows(TEN_SECONDS))
            .aggregate(() -> (JsonNode) zeros("auctions"), (key, pair, all) -> all.has("name") ? plus(all, "auctions", 1)
                : plus(all, "auctions", 1).set("name", pair.get("name")), windowed(L)))
            .to("q8", to(Long.class, 10_000));
    }

    public static void q9(StreamsBuilder builder) {
        bidsInTime(builder).groupByKey(Grouped.with(L, J))
            .aggregate(() -> (JsonNode) JSON.createObjectNode(),
                (key, bid, best) -> best(bid, best, "price", "bidder", "date_time", "category"), keyed(L))
            .toStream().to("q9", Produced.with(L, J));
    }

    public static void q11(StreamsBuilder builder) {
        KTable<Windowed<Long>, JsonNode> sessions = bids(builder).groupBy((key, bid) -> number(bid, "bidder"), Grouped.with(L, J))
            .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(TEN_SECONDS))
            .aggregate(() -> (JsonNode) zeros("bids"), (key, bid, count) -> plus(count, "bids", 1),
                (key, one, other) -> plus(one, "bids", number(other, "bids")), Materialized.with(L, J));
        closed(sessions).to("q11", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(Long.class), J));
    }

    public static void q13(StreamsBuilder builder) {
        KTable<Long, JsonNode> side = table(builder, "side_input");
        bids(builder).selectKey((key, bid) -> number(bid, "auction") % 10_000)
            .join(side, (bid, row) -> pick(bid, BID).<JsonNode>set("value", row.get("value")), Joined.with(L, J, J))
            .to("q13", Produced.with(L, J));
    }

    static String rank(JsonNode bid) {
        long price = number(bid, "price");
        return price < 10_000 ? "cheap" : price < 1_000_000 ? "middle" : "dear";
    }

    static ObjectNode counted(JsonNode bid, JsonNode all) {
        return plus(plus(all, "bids_all", 1), "bids_" + rank(bid), 1);
    }

    static ObjectNode noBids() {
        return zeros("bids_all", "bids_cheap", "bids_middle", "bids_dear");
    }

    /** Counts, and the different bidders and auctions as fields of objects. */
    static JsonNode statistics(JsonNode bid, JsonNode all) {
        ObjectNode found = counted(bid, all);
        for (String field : new String[] {"bidder", "auction"}) {
            for (String rank : new String[] {"all", rank(bid)}) {
                ((ObjectNode) found.withObject("/" + field + "s_" + rank)).put(bid.get(field).asText(), true);
            }
        }
        return found.put("minute", Math.max(found.path("minute").asLong(), number(bid, "date_time") % DAY_MS / 60_000));
    }

    static JsonNode sizes(JsonNode all, boolean withMinute) {
        ObjectNode found = pick(all, "bids_all", "bids_cheap", "bids_middle", "bids_dear");
        for (String field : new String[] {"bidder", "auction"}) {
            for (String rank : new String[] {"all", "cheap", "middle", "dear"}) {
                found.put(field + "s_" + rank, (long) all.path(field + "s_" + rank).size());
            }
        }
        return withMinute ? found.set("minute", all.get("minute")) : found;
    }

    public static void q15(StreamsBuilder builder) {
        closed(bids(builder).groupBy((key, bid) -> 0L, Grouped.with(L, J)).windowedBy(windows(Duration.ofDays(1)))
            .aggregate(() -> (JsonNode) noBids(), (key, bid, all) -> statistics(bid, all), windowed(L)))
            .mapValues(all -> sizes(all, false)).to("q15", to(Long.class, DAY_MS));
    }

    public static void q16(StreamsBuilder builder) {
        closed(bids(builder).groupBy((key, bid) -> bid.get("channel").asText(), Grouped.with(S, J))
            .windowedBy(windows(Duration.ofDays(1)))
            .aggregate(() -> (JsonNode) noBids(), (key, bid, all) -> statistics(bid, all), windowed(S)))
            .mapValues(all -> sizes(all, true)).to("q16", to(String.class, DAY_MS));
    }

    public static void q17(StreamsBuilder builder) {
        closed(bids(builder).groupByKey(Grouped.with(L, J)).windowedBy(windows(Duration.ofDays(1)))
            .aggregate(() -> (JsonNode) noBids(), (key, bid, all) -> prices(bid, all), windowed(L)))
            .to("q17", to(Long.class, DAY_MS));
    }

    static JsonNode prices(JsonNode bid, JsonNode all) {
        long price = number(bid, "price");
        return counted(bid, all).put("least", Math.min(all.path("least").asLong(Long.MAX_VALUE), price))
            .put("most", Math.max(all.path("most").asLong(), price)).put("total", all.path("total").asLong() + price);
    }

    public static void q18(StreamsBuilder builder) {
        bids(builder).groupBy((key, bid) -> number(bid, "bidder") + "-" + number(bid, "auction"), Grouped.with(S, J))
            .aggregate(() -> (JsonNode) JSON.createObjectNode(), (key, bid, last) -> pick(bid, BID), keyed(S))
            .toStream().to("q18", Produced.with(S, J));
    }

    public static void q19(StreamsBuilder builder) {
        bids(builder).groupByKey(Grouped.with(L, J))
            .aggregate(() -> {
                ObjectNode none = JSON.createObjectNode();
                none.putArray("prices");
                none.putArray("bidders");
                return (JsonNode) none;
            }, (key, bid, best) -> top(bid, best.deepCopy()), keyed(L))
            .toStream().to("q19", Produced.with(L, J));
    }

    static JsonNode top(JsonNode bid, JsonNode best) {
        ArrayNode prices = (ArrayNode) best.get("prices"), bidders = (ArrayNode) best.get("bidders");
        int at = 0;
        while (at < prices.size() && prices.get(at).asLong() >= number(bid, "price")) at++;
        prices.insert(at, number(bid, "price"));
        bidders.insert(at, number(bid, "bidder"));
        if (prices.size() > 10) {
            prices.remove(10);
            bidders.remove(10);
        }
        return best;
    }

    public static void q20(StreamsBuilder builder) {
        KStream<Long, JsonNode> auctions = stream(builder, "auction").filter((key, auction) -> number(auction, "category") == 10);
        bids(builder)
            .join(auctions, (bid, auction) -> {
                ObjectNode both = pick(bid, BID);
                both.setAll(pick(auction, "item", "initial_bid", "expires", "seller", "category"));
                return (JsonNode) both;
            }, JoinWindows.ofTimeDifferenceWithNoGrace(TEN_SECONDS), StreamJoined.with(L, J, J))
            .to("q20", Produced.with(L, J));
    }

    public static void q22(StreamsBuilder builder) {
        bids(builder).mapValues(bid -> {
            String[] parts = bid.get("url").asText().split("/");
            ObjectNode found = pick(bid, "auction", "bidder", "price", "channel");
            for (int number = 1; number <= 3; number++) found.put("dir" + number, parts[number + 2]);
            return (JsonNode) found;
        }).to("q22", Produced.with(L, J));
    }
}
