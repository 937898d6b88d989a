//! The slower, smaller encoding of the cold tier: pcodec.

use pco::data_types::Number;
use pco::standalone::{simple_compress, simple_decompress_into};
use pco::{ChunkConfig, PagingSpec};

use super::{COUNT_MAX, EncodingError};

/// Level 8 is pco's own default; higher ones gained less than one percent on recorded quotes and took twice the time.
const LEVEL: usize = 8;

/// The `values` as one pco file, or `None` when pco refuses them.
pub(super) fn encode<T: Number>(values: &[T]) -> Option<Vec<u8>> {
    let config = ChunkConfig::default()
        .with_compression_level(LEVEL)
        .with_paging_spec(PagingSpec::EqualPagesUpTo(COUNT_MAX));
    simple_compress(values, &config).ok()
}

/// Replaces `out` by the `count` values of the pco file `bytes`, which begins at `offset` of the column.
pub(super) fn decode<T: Number + Default>(
    bytes: &[u8],
    offset: usize,
    count: usize,
    out: &mut Vec<T>,
) -> Result<(), EncodingError> {
    out.resize(count, T::default());
    match simple_decompress_into(bytes, out) {
        Ok(progress) if progress.n_processed == count && progress.finished => Ok(()),
        _ => Err(EncodingError::Compressed { by: "pco", offset, have: bytes.len() }),
    }
}
