"""pyarrow and ADBC over TLS."""
import os

import adbc_driver_flightsql.dbapi as adbc
import pyarrow.flight as flight

PORT = os.environ["FLIGHT_PORT"]
with open(os.environ["FLIGHT_FOLDER"] + "/certificate.pem") as file:
    certificate = file.read()
client = flight.connect(f"grpc+tls://localhost:{PORT}", tls_root_certs=certificate)
assert client.authenticate_basic_token("ann", "secret")[0] == b"authorization"
options = {"username": "ann", "password": "secret", "adbc.flight.sql.client_option.tls_root_certs": certificate}
with adbc.connect(f"grpc+tls://localhost:{PORT}", db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM ticks")
    assert cursor.fetchone() == (20000,)
try:
    flight.connect(f"grpc://localhost:{PORT}").authenticate_basic_token("ann", "secret")
    raise AssertionError("without encryption")
except flight.FlightError:
    pass
