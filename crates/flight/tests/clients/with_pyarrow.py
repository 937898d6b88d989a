"""pyarrow's client of Flight: the handshake, a query by its command, errors."""
import os

import pyarrow
import pyarrow.flight as flight

PORT = os.environ["FLIGHT_PORT"]


def field(number, payload):
    """A field of bytes of a protocol buffer."""
    out, length = bytearray([number << 3 | 2]), len(payload)
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes(out) + bytes([length]) + payload


def statement(text):
    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return flight.FlightDescriptor.for_command(field(1, name) + field(2, field(1, text.encode())))


client = flight.connect(f"grpc://127.0.0.1:{PORT}")
try:
    client.get_flight_info(statement("SELECT 1"))
    raise AssertionError("without a user")
except flight.FlightUnauthenticatedError as error:
    assert "no anonymous user" in str(error), error
options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ann", "secret")])
info = client.get_flight_info(statement("SELECT * FROM ticks ORDER BY sequence"), options)
table = client.do_get(info.endpoints[0].ticket, options).read_all()
assert table.num_rows == 20000 and table.schema.equals(info.schema), table.schema
assert table["price"][99].as_py() == 100.99
assert pyarrow.types.is_timestamp(table.schema.field("time").type)
assert {action.type for action in client.list_actions(options)} >= {"CreatePreparedStatement", "CancelFlightInfo"}
try:
    client.get_flight_info(statement("SELECT * FROM hidden"), options)
    raise AssertionError("a hidden stream")
except (flight.FlightServerError, KeyError, pyarrow.ArrowException) as error:
    assert "hidden" in str(error), error
