//! Facts of the server that never change: what it can, and its types.

use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity, SqlSupportedTransaction,
    XdbcDataType,
};

/// Facts that never change.
pub(crate) struct Facts {
    pub info: SqlInfoData,
    pub types: XdbcTypeInfoData,
}

impl Facts {
    /// # Errors
    /// When they cannot be written: a defect.
    pub fn new() -> Result<Self, FlightError> {
        Ok(Self { info: info()?, types: types()? })
    }
}

fn info() -> Result<SqlInfoData, FlightError> {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "TapeDB");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    info.append(SqlInfo::FlightSqlServerReadOnly, false);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, false);
    info.append(SqlInfo::FlightSqlServerStatementTimeout, 0i32);
    info.append(SqlInfo::FlightSqlServerTransactionTimeout, 0i32);
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, false);
    info.append(
        SqlInfo::SqlIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i64,
    );
    info.append(
        SqlInfo::SqlQuotedIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i64,
    );
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i64);
    info.append(SqlInfo::SqlSearchStringEscape, "\\");
    info.append(SqlInfo::SqlSupportsColumnAliasing, true);
    info.append(SqlInfo::SqlSchemaTerm, "stream");
    info.append(SqlInfo::SqlCatalogTerm, "database");
    info.append(SqlInfo::SqlCatalogAtStart, true);
    info.append(SqlInfo::SqlStoredProceduresSupported, false);
    info.append(SqlInfo::SqlSelectForUpdateSupported, false);
    info.append(SqlInfo::SqlSavepointsSupported, false);
    info.append(SqlInfo::SqlTransactionsSupported, false);
    info.append(SqlInfo::SqlNamedParametersSupported, true);
    info.build()
}

/// The types of columns: SQL's name, the number of ODBC and JDBC, and digits.
const TYPES: [(&str, XdbcDataType, i32); 12] = [
    ("BOOLEAN", XdbcDataType::XdbcBit, 1),
    ("TINYINT", XdbcDataType::XdbcTinyint, 3),
    ("SMALLINT", XdbcDataType::XdbcSmallint, 5),
    ("INTEGER", XdbcDataType::XdbcInteger, 10),
    ("BIGINT", XdbcDataType::XdbcBigint, 19),
    ("REAL", XdbcDataType::XdbcReal, 7),
    ("DOUBLE", XdbcDataType::XdbcDouble, 15),
    ("DECIMAL", XdbcDataType::XdbcDecimal, 38),
    ("VARCHAR", XdbcDataType::XdbcVarchar, i32::MAX),
    ("VARBINARY", XdbcDataType::XdbcVarbinary, i32::MAX),
    ("TIME", XdbcDataType::XdbcTime, 18),
    ("TIMESTAMP", XdbcDataType::XdbcTimestamp, 29),
];

fn types() -> Result<XdbcTypeInfoData, FlightError> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, ty, size) in TYPES {
        let quote = || matches!(name, "VARCHAR" | "TIME" | "TIMESTAMP").then(|| "'".to_string());
        types.append(XdbcTypeInfo {
            type_name: name.into(),
            data_type: ty,
            sql_data_type: ty,
            column_size: Some(size),
            literal_prefix: quote(),
            literal_suffix: quote(),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "VARCHAR",
            searchable: Searchable::Full,
            unsigned_attribute: Some(false),
            local_type_name: Some(name.into()),
            ..XdbcTypeInfo::default()
        });
    }
    types.build()
}
