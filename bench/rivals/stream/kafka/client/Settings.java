import java.util.HashMap;
import java.util.Map;

/** What to measure. Keys with `producer.`, `consumer.` or `topic.` before them are Kafka's own. */
record Settings(Map<String, String> words) {
    /** Reads KEY=VALUE from the second word on. */
    static Settings parse(String[] words) {
        Map<String, String> parsed = new HashMap<>();
        for (int at = 1; at < words.length; at++) {
            int equals = words[at].indexOf('=');
            if (equals < 0) {
                throw new IllegalArgumentException(words[at] + " is not KEY=VALUE");
            }
            parsed.put(words[at].substring(0, equals), words[at].substring(equals + 1));
        }
        return new Settings(parsed);
    }

    /** Address of the broker. */
    String url() {
        return words.get("url");
    }

    /** Producers, and consumers. */
    int pairs() {
        return Integer.parseInt(words.getOrDefault("pairs", "1"));
    }

    /** Records in a message. */
    int packed() {
        return Integer.parseInt(words.getOrDefault("packed", "1"));
    }

    /** Records a second, for latency. */
    long rate() {
        return Long.parseLong(words.getOrDefault("rate", "50000"));
    }

    /** What is not measured yet. */
    long warmupNanos() {
        return nanos("warmup", "1");
    }

    /** What is measured. */
    long durationNanos() {
        return nanos("seconds", "5");
    }

    /** Kafka's settings behind such a prefix. */
    Map<String, Object> of(String prefix) {
        Map<String, Object> found = new HashMap<>();
        words.forEach((key, value) -> {
            if (key.startsWith(prefix)) {
                found.put(key.substring(prefix.length()), value);
            }
        });
        return found;
    }

    private long nanos(String key, String standard) {
        return (long) (Double.parseDouble(words.getOrDefault(key, standard)) * 1e9);
    }
}
