import java.io.BufferedReader;
import java.io.InputStreamReader;

/**
 * Measures Kafka for `bench/rivals/run stream`, which starts the broker. Reads lines `WORK KEY=VALUE…` from stdin, where
 * WORK is `throughput` or `latency`, and answers each with a JSON object in a line. Ends with the input, or with a line
 * on stderr and exit code 1.
 */
public final class Main {
    private Main() {}

    public static void main(String[] none) {
        try {
            answerAll();
            System.exit(0);
        } catch (Throwable error) {
            System.err.println(error);
            System.exit(1);
        }
    }

    private static void answerAll() throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ")));
        }
    }

    private static String answer(String[] words) throws Exception {
        Settings settings = Settings.parse(words);
        return switch (words[0]) {
            case "throughput" -> Throughput.measure(settings);
            case "latency" -> Latency.measure(settings);
            default -> throw new IllegalArgumentException(words[0] + " is not throughput or latency");
        };
    }
}
