import com.kx.c;

/** javakdb against a plant: subscribes, receives, publishes what it can. Arguments: port, rows. */
public class ClientJava {
    static final String[] NAMES = {"time", "sym", "price", "size", "ex"};

    static Object[] columns(int first, int count) {
        c.Timespan[] times = new c.Timespan[count];
        String[] syms = new String[count];
        String[] exs = new String[count];
        double[] prices = new double[count];
        long[] sizes = new long[count];
        for (int i = 0; i < count; i++) {
            int n = first + i;
            times[i] = new c.Timespan(n * 1000L);
            syms[i] = n % 2 == 0 ? "AIG" : "BAC";
            prices[i] = n / 4.0;
            sizes[i] = n;
            exs[i] = "N";
        }
        return new Object[] {times, syms, prices, sizes, exs};
    }

    static int next = 0;

    static void take(c subscriber, int until) throws Exception {
        while (next <= until) {
            Object[] update = (Object[]) subscriber.k();
            check(update[1].equals("trade"), "a table " + update[1]);
            for (long size : (long[]) ((c.Flip) update[2]).y[3]) {
                check(size == next++, "row " + size + " in place of " + (next - 1));
            }
        }
    }

    static void check(boolean is, String what) {
        if (!is) throw new IllegalStateException(what);
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]), rows = Integer.parseInt(arguments[1]);
        c feed = new c("127.0.0.1", port, "me:secret"), subscriber = new c("127.0.0.1", port, "me:secret");
        Object[] schema = (Object[]) subscriber.k(".u.sub", "trade", "");
        check(schema[0].equals("trade") && ((c.Flip) schema[1]).x.length == 5, "the table");
        check((Long) feed.k("1+1") == 2, "1+1");
        feed.k(".u.upd", "trade", new Object[] {new c.Timespan(0), "AIG", 1.5, 0L, "N"});
        feed.k(".u.upd", "trade", new Object[] {"AIG", 1.5, 1L, "N"});
        feed.ks("upd", "trade", columns(2, 1));
        feed.k(".u.upd", "trade", new c.Flip(new c.Dict(NAMES, columns(3, 1))));
        feed.k(".u.upd", "trade", new c.Dict(NAMES, columns(4, 1)));
        take(subscriber, 4);
        for (int first = 5; first < rows; first += 1000) {
            feed.ks(".u.upd", "trade", columns(first, Math.min(1000, rows - first)));
        }
        take(subscriber, rows - 1);
        check((Long) feed.k("count trade") == rows, "count trade");
        try {
            feed.k(".u.sub", "nosuch", "");
            check(false, "an unknown table must be refused");
        } catch (c.KException error) {
            check(error.getMessage().contains("nosuch"), error.getMessage());
        }
        System.out.println("received " + next);
        System.exit(0);
    }
}
