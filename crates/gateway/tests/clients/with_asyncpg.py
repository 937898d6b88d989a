"""asyncpg: prepared statements, cursors with fetch sizes, copies, errors."""
import asyncio
import datetime
import decimal
import os

import asyncpg


async def main():
    connection = await asyncpg.connect(host="127.0.0.1", port=int(os.environ["GATEWAY_PORT"]), user="anyone", database="tapedb", ssl="prefer")
    rows = await connection.fetch("SELECT symbol, price, size, id, time FROM ticks WHERE symbol = $1 AND size = $2", "AAPL", 3)
    assert len(rows) == 1428 and rows[0]["symbol"] == "AAPL" and isinstance(rows[0]["id"], decimal.Decimal), rows[0]
    start = datetime.datetime(2024, 1, 2, 14, 30, tzinfo=datetime.timezone.utc)
    assert await connection.fetchval("SELECT count(*) FROM ticks WHERE time >= $1", start + datetime.timedelta(seconds=10)) == 10000
    statement = await connection.prepare("SELECT flag, wide, exact, clock, bytes, level FROM kinds WHERE small < $1 ORDER BY sequence")
    row = await statement.fetchrow(0)
    assert tuple(row) == (
        True, None, decimal.Decimal("12345.6700"), datetime.time(14, 30, 0, 500000), b"\x00\xff", '{"price":1.5,"size":7}',
    ), row
    async with connection.transaction():
        count = 0
        async for _ in connection.cursor("SELECT price FROM ticks", prefetch=777):
            count += 1
        assert count == 20000, count
    chunks = []

    async def take(data):
        chunks.append(data)

    await connection.copy_from_query("SELECT symbol, size FROM ticks LIMIT 100", output=take, format="csv")
    assert b"".join(chunks).count(b"\n") == 100
    try:
        await connection.fetch("SELECT * FROM nothing")
    except asyncpg.UndefinedTableError:
        pass
    else:
        raise AssertionError("a table that is not there")
    try:
        await connection.fetch("SELECT count(*) FROM ticks a, ticks b, ticks c WHERE a.price + b.price + c.price < 0", timeout=0.3)
    except (asyncio.TimeoutError, TimeoutError):
        pass
    assert await connection.fetchval("SELECT 1") == 1
    assert len(await connection.fetch("SELECT size FROM ticks LIMIT $1 OFFSET $2", 5, 3)) == 5
    for text, values, expected in [
        ("symbol = ANY($1)", ["AAPL", "IBM", None, 'q",\\'], "symbol IN ('AAPL', 'IBM')"),
        ("size = ANY($1)", [1, 3], "size IN (1, 3)"),
        ("price = ANY($1)", [100.5, 100.75], "price IN (100.5, 100.75)"),
        ("id = ANY($1)", [decimal.Decimal(2**64 - 1), decimal.Decimal("1")], "id IN (18446744073709551615, 1)"),
        ("time = ANY($1)", [start + datetime.timedelta(milliseconds=5)], "false"),
        ("symbol <> ALL($1)", ["AAPL", "IBM"], "symbol NOT IN ('AAPL', 'IBM')"),
    ]:
        found = await connection.fetchval(f"SELECT count(*) FROM ticks WHERE {text}", values)
        assert found == await connection.fetchval(f"SELECT count(*) FROM ticks WHERE {expected}"), (text, found)
    assert await connection.fetchval("SELECT count(*) FROM ticks WHERE symbol = ANY($1)", []) == 0
    assert (await connection.fetchrow("SELECT list FROM kinds ORDER BY sequence LIMIT 1"))["list"] == [1, 2]
    records = [(start, "ASYNC", 2.5, number, None, decimal.Decimal(number)) for number in range(100)]
    columns = ["time", "symbol", "price", "size", "side", "id"]
    tag = await connection.copy_records_to_table("ticks", records=records, columns=columns)
    assert tag == "COPY 100", tag
    assert await connection.fetchval("SELECT count(*) FROM ticks WHERE symbol = 'ASYNC'") == 100
    await connection.reset()
    await connection.close()
    pool = await asyncpg.create_pool(host="127.0.0.1", port=int(os.environ["GATEWAY_PORT"]), user="anyone", database="tapedb", min_size=2, max_size=2)
    assert await pool.fetchval("SELECT 2") == 2
    await pool.close()


asyncio.run(main())
