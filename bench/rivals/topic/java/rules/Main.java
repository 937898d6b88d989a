import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * The command language that `bench/rivals/run topic` speaks with each measuring program. Reads lines `WORK KEY=VALUE…` from
 * stdin, where WORK is `latency`, `throughput`, `publish` or `subscribe` (the last ends only when it is killed), and answers
 * each with a JSON object in a line. Ends with the input, or with a line on stderr and exit code 1.
 */
final class Main {
    private Main() {}

    /** Answers all lines, each with a medium of its own. */
    static void run(Medium.Maker maker) {
        try {
            var lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(answer(line.split(" "), maker));
            }
            System.exit(0);
        } catch (Throwable error) {
            fail(error);
        }
    }

    /** Ends the program. */
    static void fail(Throwable error) {
        error.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private static String answer(String[] words, Medium.Maker maker) throws Exception {
        Settings settings = Settings.parse(words);
        try (Medium medium = maker.make(settings)) {
            return switch (words[0]) {
                case "latency" -> Latency.measure(medium, settings);
                case "throughput" -> Throughput.measure(medium, settings);
                case "publish" -> Stall.publish(medium, settings);
                case "subscribe" -> Stall.subscribe(medium);
                default -> throw new IllegalArgumentException(
                        words[0] + " is not latency, throughput, publish or subscribe");
            };
        }
    }
}
