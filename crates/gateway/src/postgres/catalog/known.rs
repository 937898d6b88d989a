//! Queries of drivers that are too deep for what plans them, as plainer ones with the same answer.

use crate::postgres::types::Type;

/// What asyncpg asks of types that it does not know, arrays most of all: it looks for domains, ranges and records below them, which there are
/// not, with queries that are recursive within recursive ones.
const ASYNCPG: &str = "
    SELECT t.oid AS oid, ns.nspname AS ns, t.typname AS name, t.typtype AS kind, NULL::bigint AS basetype, t.typelem AS elemtype,
        e.typdelim AS elemdelim, NULL::bigint AS range_subtype, NULL::text AS attrtypoids, NULL::text AS attrnames, 0 AS depth,
        NULL::text AS basetype_name, e.typname AS elemtype_name, NULL::text AS range_subtype_name
    FROM pg_catalog.pg_type AS t
        INNER JOIN pg_catalog.pg_namespace ns ON (ns.oid = t.typnamespace)
        LEFT JOIN pg_catalog.pg_type e ON (t.typelem = e.oid)
    WHERE t.oid = ANY($1)";

/// A plainer query, and the types of its parameters.
pub(crate) fn plainer(text: &str) -> Option<(&'static str, [u32; 1])> {
    let is_asyncpg = text.contains("WITH RECURSIVE typeinfo_tree(") && text.contains("any($1::oid[])");
    is_asyncpg.then(|| (ASYNCPG, [Type::Array(Box::new(Type::Oid)).oid()]))
}

/// The schemas in the search path with their places in it, as pgjdbc looks for a type. Streams have no types of their own.
const SEARCH_PATH: &str = "SELECT oid AS nspoid, nspname, 1 AS r FROM pg_namespace WHERE nspname = 'public'";

/// A plainer query in place of one in the `FROM` of another.
pub(crate) fn plainer_subquery(text: &str) -> Option<&'static str> {
    let is_path = text.contains("nspoid") && text.contains("array_upper(current_schemas(false)");
    is_path.then_some(SEARCH_PATH)
}
