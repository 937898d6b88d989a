import java.util.HashMap;
import java.util.Map;

/** What to measure: `KEY=VALUE` words, which `program.rs` explains. */
final class Settings {
    private final Map<String, String> words = new HashMap<>();

    private Settings() {}

    static Settings parse(String[] line) {
        Settings settings = new Settings();
        for (int at = 1; at < line.length; at++) {
            String[] pair = line[at].split("=", 2);
            if (pair.length < 2) {
                throw new IllegalArgumentException(line[at] + " is not KEY=VALUE");
            }
            settings.words.put(pair[0], pair[1]);
        }
        return settings;
    }

    /** Words of a record, for latency: of 40 or 256 bytes. */
    int recordWords() {
        return Integer.parseInt(words.getOrDefault("bytes", "40")) / Long.BYTES;
    }

    /** Messages a second, for latency. */
    long rate() {
        return Long.parseLong(words.getOrDefault("rate", "50000"));
    }

    /** Records in a message, for throughput. */
    int packed() {
        return Integer.parseInt(words.getOrDefault("packed", "1"));
    }

    /** What is not measured yet. */
    long warmupNanos() {
        return nanos("warmup", "0.2");
    }

    /** What is measured. */
    long durationNanos() {
        return nanos("seconds", "3");
    }

    /** Where processes meet that measure together: a name of letters and digits. */
    String place() {
        return words.getOrDefault("place", "tapedb-rival-" + ProcessHandle.current().pid());
    }

    /** Bytes of Aeron's terms, such as `16m`. */
    String term() {
        return words.getOrDefault("term", "16m");
    }

    /** Whether another process has made that place. */
    boolean isGuest() {
        return Boolean.parseBoolean(words.getOrDefault("guest", "false"));
    }

    private long nanos(String key, String standard) {
        return (long) (Double.parseDouble(words.getOrDefault(key, standard)) * 1e9);
    }
}
