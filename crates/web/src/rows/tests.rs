use super::*;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray, StringArray,
    StructArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field};
use std::sync::Arc;

fn stream(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    );
    let batch = batch.unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.write(&batch.slice(0, 1)).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn written(format: Format, limit: Option<u64>, bytes: &[u8], piece: usize) -> String {
    let (mut writer, mut out) = (RowWriter::new(format, limit, Instant::now()), Vec::new());
    for piece in bytes.chunks(piece) {
        if writer.write(piece.to_vec(), &mut out).unwrap() {
            break;
        }
    }
    writer.finish(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    match text.split_once(",\"milliseconds\":") {
        Some((text, _)) => text.into(),
        None => text,
    }
}

fn two() -> Vec<u8> {
    let decimals = Decimal128Array::from(vec![Some(1250), None]).with_precision_and_scale(18, 2).unwrap();
    let keyed: DictionaryArray<Int32Type> = vec![Some("A\"B"), None].into_iter().collect();
    stream(vec![
        ("time", Arc::new(TimestampNanosecondArray::from(vec![1_704_205_800_000_000_001, 0])) as ArrayRef),
        ("symbol", Arc::new(keyed)),
        ("id", Arc::new(UInt64Array::from(vec![u64::MAX, 1]))),
        ("price", Arc::new(decimals)),
        ("x", Arc::new(Float64Array::from(vec![0.1, f64::NAN]))),
    ])
}

#[test]
fn json_loses_no_digits() {
    let first = "{\"time\":\"1704205800000000001\",\"symbol\":\"A\\\"B\",\"id\":\"18446744073709551615\",\"price\":\"12.50\",\"x\":0.1}";
    let second = "{\"time\":\"0\",\"symbol\":null,\"id\":\"1\",\"price\":null,\"x\":\"NaN\"}";
    for piece in [7, 1 << 20] {
        assert_eq!(written(Format::Json, None, &two(), piece), format!("[{first},\n{second},\n{first}]\n"));
        assert_eq!(written(Format::Jsonl, None, &two(), piece), format!("{first}\n{second}\n{first}\n"));
    }
    let table = written(Format::Table, Some(2), &two(), 1 << 20);
    assert!(
        table.starts_with(
            "{\"columns\":[{\"name\":\"time\",\"type\":\"timestamp\"},{\"name\":\"symbol\",\"type\":\"text\"}"
        ),
        "{table}"
    );
    assert!(table.ends_with(",[\"0\",null,\"1\",null,\"NaN\"]],\"count\":2,\"truncated\":true"), "{table}");
    assert!(written(Format::Table, Some(3), &two(), 1 << 20).ends_with("\"count\":3,\"truncated\":false"));
}

#[test]
fn nested_values_are_json() {
    let list = ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
    ]);
    let inner: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
    let nested = StructArray::from(vec![(Arc::new(Field::new("n", DataType::Int64, true)), inner)]);
    let bytes = stream(vec![("l", Arc::new(list) as ArrayRef), ("s", Arc::new(nested))]);
    let first = "{\"l\":[\"1\",null],\"s\":{\"n\":\"5\"}}";
    assert_eq!(
        written(Format::Jsonl, None, &bytes, 99),
        format!("{first}\n{{\"l\":null,\"s\":{{\"n\":null}}}}\n{first}\n")
    );
}

#[test]
fn csv_has_no_formulas() {
    let texts = ["=1+1", "a,b", "+cmd", "-x", "@x", "say \"hi\"", "\tx", "plain", "=a,\"b\""];
    let numbers = Int64Array::from_iter_values((0..9).map(|number| -number));
    let bytes = stream(vec![
        ("=text", Arc::new(StringArray::from(texts.to_vec())) as ArrayRef),
        ("n", Arc::new(numbers)),
    ]);
    let csv = written(Format::Csv, Some(9), &bytes, 1 << 20);
    let expected = "'=text,n\r\n'=1+1,0\r\n\"a,b\",-1\r\n'+cmd,-2\r\n'-x,-3\r\n'@x,-4\r\n\"say \"\"hi\"\"\",-5\r\n'\tx,-6\r\nplain,-7\r\n\"'=a,\"\"b\"\"\",-8\r\n";
    assert_eq!(csv, expected);
}

#[test]
fn arrow_goes_through_unchanged_and_is_cut_at_a_limit() {
    let bytes = two();
    let (mut writer, mut out) = (RowWriter::new(Format::Arrow, None, Instant::now()), Vec::new());
    writer.write(bytes.clone(), &mut out).unwrap();
    writer.finish(&mut out).unwrap();
    assert_eq!(out, bytes);
    let (mut writer, mut out) = (RowWriter::new(Format::Arrow, Some(1), Instant::now()), Vec::new());
    assert!(writer.write(bytes, &mut out).unwrap());
    writer.finish(&mut out).unwrap();
    let rows = arrow_ipc::reader::StreamReader::try_new(&out[..], None).unwrap();
    assert_eq!(rows.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 1);
}

#[test]
fn no_rows_are_rows_too() {
    assert_eq!(written(Format::Json, None, &[], 1), "[]\n");
    assert_eq!(
        written(Format::Table, None, &[], 1),
        "{\"columns\":[],\"rows\":[],\"count\":0,\"truncated\":false"
    );
    let empty = RecordBatch::new_empty(Arc::new(arrow_schema::Schema::new(vec![Field::new(
        "a",
        DataType::Int64,
        true,
    )])));
    let mut bytes = StreamWriter::try_new(Vec::new(), &empty.schema()).unwrap();
    bytes.finish().unwrap();
    assert_eq!(written(Format::Json, None, bytes.get_ref(), 9), "[]\n");
    assert_eq!(written(Format::Csv, None, bytes.get_ref(), 9), "a\r\n");
}

#[test]
fn parameters_come_from_json() {
    let values =
        serde_json::json!({ "symbol": "A", "n": 5, "big": u64::MAX, "x": 0.5, "none": null, "is": true });
    let bytes = parameters(Some(&values)).unwrap();
    let batch = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap().next().unwrap().unwrap();
    assert_eq!((batch.num_rows(), batch.num_columns()), (1, 6));
    let listed = parameters(Some(&serde_json::json!(["A", 1]))).unwrap();
    let batch = arrow_ipc::reader::StreamReader::try_new(&listed[..], None).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.schema().field(1).name(), "2");
    for wrong in [serde_json::json!("x"), serde_json::json!([[1]]), serde_json::json!({ "a": {} })] {
        assert!(parameters(Some(&wrong)).is_err(), "{wrong}");
    }
    assert_eq!(parameters(None), Ok(Vec::new()));
}
