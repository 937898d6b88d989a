/* The JDBC driver of PostgreSQL, on which DBeaver, DataGrip and Metabase stand: types, parameters, cursors, metadata, COPY, errors. */

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.*;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.*;
import org.postgresql.PGConnection;

public class WithPgjdbc {
    static final OffsetDateTime START = OffsetDateTime.of(2024, 1, 2, 14, 30, 0, 0, ZoneOffset.UTC);

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    static Connection connect(String parameters) throws SQLException {
        String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("GATEWAY_PORT") + "/tapedb?user=anyone" + parameters;
        return DriverManager.getConnection(url);
    }

    static long count(PreparedStatement statement) throws SQLException {
        try (ResultSet rows = statement.executeQuery()) {
            rows.next();
            return rows.getLong(1);
        }
    }

    /** The extended protocol as it is by default, all of it in text, prepared and binary at once, and the simple one. */
    static void values(String parameters) throws SQLException {
        try (Connection connection = connect(parameters)) {
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery(
                            "SELECT time, symbol, price, size, side, id, sequence, time_ns FROM ticks WHERE sequence = 0")) {
                rows.next();
                equal(rows.getObject("time", OffsetDateTime.class), START);
                equal(rows.getString("symbol"), "AAPL");
                equal(rows.getDouble("price"), 100.0);
                equal(rows.getLong("size"), 0L);
                equal(rows.getString("side"), "Buy");
                equal(rows.getBigDecimal("id"), new BigDecimal("18446744073709551615"));
                equal(rows.getBigDecimal("sequence").longValueExact(), 0L);
                equal(rows.getLong("time_ns"), 1704205800000000123L);
                equal(rows.next(), false);
            }
            try (Statement statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery(
                            "SELECT flag, small, wide, ratio, exact, clock, text, bytes, list FROM kinds ORDER BY sequence")) {
                rows.next();
                equal(rows.getBoolean(1), true);
                equal(rows.getInt(2), -5);
                equal(rows.getObject(3), null);
                equal(rows.getDouble(4), 0.1);
                equal(rows.getBigDecimal(5), new BigDecimal("12345.6700"));
                equal(rows.getObject(6, java.time.LocalTime.class), java.time.LocalTime.of(14, 30, 0, 500_000_000));
                equal(rows.getString(7), "a\tb\"c\\\nü");
                equal(Arrays.toString(rows.getBytes(8)), "[0, -1]");
                equal(Arrays.toString((Object[]) rows.getArray(9).getArray()), "[1, 2]");
                rows.next();
                equal(rows.getLong(3), (1L << 53) + 1);
                equal(Double.isNaN(rows.getDouble(4)), true);
                equal(rows.getBigDecimal(5), new BigDecimal("-0.0001"));
                equal(((Object[]) rows.getArray(9).getArray()).length, 0);
            }
            try (PreparedStatement statement = connection.prepareStatement("SELECT count(*) FROM ticks WHERE symbol = ? AND size = ?")) {
                for (int round = 0; round < 12; round++) { // Prepared on the server after five times.
                    statement.setString(1, "AAPL");
                    statement.setLong(2, 3);
                    equal(count(statement), 1428L);
                }
            }
            try (PreparedStatement statement = connection.prepareStatement("SELECT count(*) FROM ticks WHERE time < ?")) {
                statement.setObject(1, START.plusNanos(10_000_000));
                equal(count(statement), 10L);
                statement.setTimestamp(1, Timestamp.from(START.plusNanos(10_000_000).toInstant()));
                equal(count(statement), 10L);
            }
            try (PreparedStatement statement = connection.prepareStatement("SELECT count(*) FROM ticks WHERE price = ?")) {
                statement.setDouble(1, 100.5);
                equal(count(statement), 200L);
                statement.setBigDecimal(1, new BigDecimal("100.50"));
                equal(count(statement), 200L);
            }
            // In the simple protocol, an array is a literal, whose text no query takes as one, and a statement is not described.
            boolean isSimple = parameters.contains("simple");
            try (PreparedStatement statement = connection.prepareStatement(
                    isSimple ? "SELECT 1428 WHERE ? IS NOT NULL AND ? IS NOT NULL" : "SELECT count(*) FROM ticks WHERE symbol = ANY (?) AND size = ANY (?)")) {
                statement.setArray(1, connection.createArrayOf("text", new String[] {"AAPL", "a,\"b\\"}));
                statement.setArray(2, connection.createArrayOf("bigint", new Long[] {3L, null}));
                equal(count(statement), 1428L);
            }
            try (PreparedStatement statement = connection.prepareStatement("SELECT symbol FROM ticks WHERE sequence < 3 ORDER BY sequence LIMIT ?")) {
                statement.setInt(1, 2);
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    equal(rows.getString(1), "AAPL");
                    rows.next();
                    equal(rows.next(), false);
                }
            }
            if (!isSimple) {
                try (PreparedStatement statement = connection.prepareStatement("SELECT price FROM ticks WHERE symbol = ?")) {
                    equal(statement.getMetaData().getColumnTypeName(1), "float8");
                    equal(statement.getParameterMetaData().getParameterCount(), 1);
                }
            }
            connection.setAutoCommit(false); // Only then rows come through a portal, some at a time.
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(3000);
                try (ResultSet rows = statement.executeQuery("SELECT sequence, price FROM ticks ORDER BY sequence")) {
                    long number = 0;
                    double last = 0;
                    while (rows.next()) {
                        equal(rows.getLong(1), number++);
                        last = rows.getDouble(2);
                    }
                    equal(number, 20000L);
                    equal(last, 100.99);
                }
            }
            connection.commit();
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery("SELECT missing FROM ticks");
                throw new AssertionError("a column that is not there");
            } catch (SQLException error) {
                equal(error.getSQLState(), "42703");
                connection.rollback();
            }
            connection.setAutoCommit(true);
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(1); // The driver cancels over a connection of its own.
                statement.executeQuery("SELECT count(*) FROM ticks a, ticks b, ticks c WHERE a.price + b.price + c.price < 0");
                throw new AssertionError("it took too long");
            } catch (SQLException error) {
                equal(error.getSQLState(), "57014");
            }
            try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT 1")) {
                rows.next();
                equal(rows.getInt(1), 1);
            }
            equal(connection.isValid(5), true);
        }
    }

    static List<String> names(ResultSet rows, String column) throws SQLException {
        List<String> names = new ArrayList<>();
        while (rows.next()) {
            names.add(rows.getString(column));
        }
        rows.close();
        return names;
    }

    /** What tools ask for before they show anything; no row can be updated, so they do not ask what identifies one. */
    static void metadata() throws SQLException {
        try (Connection connection = connect("")) {
            DatabaseMetaData about = connection.getMetaData();
            equal(about.getDatabaseProductName(), "PostgreSQL");
            equal(about.getDatabaseMajorVersion(), 15);
            equal(names(about.getCatalogs(), "TABLE_CAT"), List.of("tapedb"));
            List<String> schemas = names(about.getSchemas(), "TABLE_SCHEM");
            if (schemas.isEmpty()) {
                throw new AssertionError("no schemas");
            }
            List<String> tables = names(about.getTables(null, null, "%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME");
            for (String table : List.of("Trade", "Kind")) {
                if (!tables.contains(table)) {
                    throw new AssertionError(tables + " lacks " + table);
                }
            }
            Map<String, Integer> types = new HashMap<>();
            try (ResultSet columns = about.getColumns(null, "ticks", "Trade", "%")) {
                while (columns.next()) {
                    types.put(columns.getString("COLUMN_NAME"), columns.getInt("DATA_TYPE"));
                }
            }
            equal(types.get("time"), Types.TIMESTAMP);
            equal(types.get("price"), Types.DOUBLE);
            equal(types.get("symbol"), Types.VARCHAR);
            equal(types.get("id"), Types.NUMERIC);
            for (ResultSet rows : List.of(
                    about.getPrimaryKeys(null, "ticks", "Trade"), about.getIndexInfo(null, "ticks", "Trade", false, true),
                    about.getImportedKeys(null, "ticks", "Trade"), about.getExportedKeys(null, "ticks", "Trade"),
                    about.getFunctions(null, null, "%"), about.getProcedures(null, null, "%"), about.getTableTypes(),
                    about.getTypeInfo(), 
                    about.getTablePrivileges(null, "ticks", "Trade"), about.getColumnPrivileges(null, "ticks", "Trade", "%"),
                    about.getUDTs(null, null, "%", null), about.getClientInfoProperties())) {
                while (rows.next()) {
                    rows.getObject(1);
                }
                rows.close();
            }
        }
    }

    static void copies() throws Exception {
        try (Connection connection = connect("")) {
            var copier = connection.unwrap(PGConnection.class).getCopyAPI();
            StringWriter text = new StringWriter();
            equal(copier.copyOut("COPY (SELECT size, symbol FROM ticks ORDER BY sequence LIMIT 3) TO STDOUT (FORMAT csv, HEADER)", text), 3L);
            equal(text.toString(), "size,symbol\n0,AAPL\n1,MSFT\n2,AAPL\n");
            String rows = "2024-02-01 00:00:00+00,JDBC,1.5,7,1\n2024-02-01 00:00:01+00,JDBC,2.5,8,2\n";
            equal(copier.copyIn("COPY ticks (time, symbol, price, size, id) FROM STDIN (FORMAT csv)", new StringReader(rows)), 2L);
            try (Statement statement = connection.createStatement();
                    ResultSet sums = statement.executeQuery("SELECT count(*), sum(size) FROM ticks WHERE symbol = 'JDBC'")) {
                sums.next();
                equal(sums.getLong(1), 2L);
                equal(sums.getLong(2), 15L);
            }
            try {
                copier.copyIn("COPY ticks (time, symbol, price, size, id) FROM STDIN (FORMAT csv)", new StringReader(rows + "never,JDBC,1,1,3\n"));
                throw new AssertionError("a time that is none");
            } catch (SQLException error) {
                if (!error.getMessage().contains("line 3")) {
                    throw error;
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (String parameters : List.of("", "&prepareThreshold=-1", "&prepareThreshold=1&binaryTransfer=true", "&binaryTransfer=false", "&preferQueryMode=simple")) {
            try {
                values(parameters);
            } catch (Throwable error) {
                throw new Exception("with " + parameters, error);
            }
        }
        metadata();
        copies();
    }
}
