//! Merges the rows of several servers by time. Of equal times those of the server come first that is first in the cluster, and from the
//! last row back those of the last one: one order is the other one backwards.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::compute::interleave_record_batch;
use datafusion::arrow::datatypes::TimestampNanosecondType;
use datafusion::common::internal_err;
use datafusion::error::Result;
use tokio::sync::mpsc::Receiver;

/// What comes from a server.
#[derive(Debug)]
pub(super) enum Piece {
    /// Rows, whose last column is their time.
    Batch(RecordBatch),
    /// That was all. A server whose pieces stop without it has failed.
    End,
}

/// The rows of a server that are merged next.
#[derive(Debug)]
struct Source {
    pieces: Receiver<Result<Piece>>,
    batch: Option<RecordBatch>,
    /// The first row that is left of the batch.
    at: usize,
    is_ended: bool,
}

/// Rows of several servers, by time.
#[derive(Debug)]
pub(super) struct Merge {
    sources: Vec<Source>,
    is_descending: bool,
    /// Rows of a batch.
    rows_max: usize,
    /// Rows that may still come.
    left: Option<usize>,
}

impl Merge {
    pub fn new(
        pieces: Vec<Receiver<Result<Piece>>>,
        is_descending: bool,
        rows_max: usize,
        limit: Option<usize>,
    ) -> Self {
        let source = |pieces| Source { pieces, batch: None, at: 0, is_ended: false };
        Self { sources: pieces.into_iter().map(source).collect(), is_descending, rows_max, left: limit }
    }

    /// The next rows; `None`: that was all.
    ///
    /// # Errors
    /// Those of the servers.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        for source in &mut self.sources {
            source.fill().await?;
        }
        let Some(batch) = self.take()? else { return Ok(None) };
        if let Some(left) = &mut self.left {
            *left -= batch.num_rows();
        }
        Ok(Some(batch))
    }

    /// The rows that come next, up to the end of a server's batch.
    fn take(&mut self) -> Result<Option<RecordBatch>> {
        let rows_max = self.left.map_or(self.rows_max, |left| left.min(self.rows_max));
        let mut batches = Vec::with_capacity(self.sources.len());
        // Places among `batches`, in the order of the servers.
        let mut active = Vec::with_capacity(self.sources.len());
        for (index, source) in self.sources.iter().enumerate() {
            if let Some(batch) = &source.batch {
                active.push(index);
                batches.push(batch.clone());
            }
        }
        if let [only] = active[..] {
            return Ok(self.sources[only].slice(rows_max));
        }
        let times = |batch: &RecordBatch| {
            batch.column(batch.num_columns() - 1).as_primitive::<TimestampNanosecondType>().values().clone()
        };
        let times: Vec<_> = batches.iter().map(times).collect();
        let mut at: Vec<usize> = active.iter().map(|index| self.sources[*index].at).collect();
        let mut rows = Vec::with_capacity(rows_max);
        while !at.is_empty() && rows.len() < rows_max {
            let place = (0..at.len()).reduce(|best, other| {
                let (a, b) = (times[best][at[best]], times[other][at[other]]);
                let is_before = if self.is_descending { b >= a } else { b < a };
                if is_before { other } else { best }
            });
            let Some(place) = place else { break };
            rows.push((place, at[place]));
            at[place] += 1;
            // Its next row is not known yet.
            if at[place] == times[place].len() {
                break;
            }
        }
        for (index, at) in active.into_iter().zip(at) {
            self.sources[index].pass(at);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(interleave_record_batch(&batches.iter().collect::<Vec<_>>(), &rows)?))
    }
}

impl Source {
    /// Takes a batch with rows, unless there is one or there are no more.
    async fn fill(&mut self) -> Result<()> {
        while self.batch.is_none() && !self.is_ended {
            match self.pieces.recv().await {
                Some(Ok(Piece::Batch(batch))) if batch.num_rows() > 0 => {
                    (self.batch, self.at) = (Some(batch), 0)
                }
                Some(Ok(Piece::Batch(_))) => {}
                Some(Ok(Piece::End)) => self.is_ended = true,
                Some(Err(error)) => return Err(error),
                None => return internal_err!("the rows of a server stopped without an end"),
            }
        }
        Ok(())
    }

    /// Goes on to a row of the batch.
    fn pass(&mut self, at: usize) {
        self.at = at;
        if self.batch.as_ref().is_some_and(|batch| at == batch.num_rows()) {
            self.batch = None;
        }
    }

    /// The next rows of this server alone.
    fn slice(&mut self, rows_max: usize) -> Option<RecordBatch> {
        let batch = self.batch.as_ref()?;
        let rows = rows_max.min(batch.num_rows() - self.at);
        let slice = batch.slice(self.at, rows);
        self.pass(self.at + rows);
        Some(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, TimestampNanosecondArray};
    use std::sync::Arc;
    use tokio::sync::mpsc::channel;

    fn batch(server: i64, times: &[i64]) -> RecordBatch {
        let servers: ArrayRef = Arc::new(Int64Array::from(vec![server; times.len()]));
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(times.to_vec()));
        RecordBatch::try_from_iter([("server", servers), ("time", times)]).unwrap()
    }

    /// The servers and times of merged rows.
    async fn merged(
        servers: &[&[&[i64]]],
        is_descending: bool,
        rows_max: usize,
        limit: Option<usize>,
    ) -> Vec<(i64, i64)> {
        let mut pieces = Vec::new();
        for (server, batches) in servers.iter().enumerate() {
            let (sender, receiver) = channel(100);
            for times in *batches {
                sender.send(Ok(Piece::Batch(batch(server as i64, times)))).await.unwrap();
            }
            sender.send(Ok(Piece::End)).await.unwrap();
            pieces.push(receiver);
        }
        let mut merge = Merge::new(pieces, is_descending, rows_max, limit);
        let mut rows = Vec::new();
        while let Some(batch) = merge.next().await.unwrap() {
            assert!(batch.num_rows() > 0 && batch.num_rows() <= rows_max);
            let servers = batch.column(0).as_primitive::<datafusion::arrow::datatypes::Int64Type>();
            let times = batch.column(1).as_primitive::<TimestampNanosecondType>();
            rows.extend(servers.values().iter().copied().zip(times.values().iter().copied()));
        }
        rows
    }

    #[tokio::test]
    async fn equal_times_are_in_the_order_of_the_servers() {
        let servers: &[&[&[i64]]] = &[&[&[1, 3, 3], &[], &[5]], &[], &[&[1, 1], &[3, 6]], &[&[0]]];
        let all = vec![(3, 0), (0, 1), (2, 1), (2, 1), (0, 3), (0, 3), (2, 3), (0, 5), (2, 6)];
        for rows_max in [1, 2, 100] {
            assert_eq!(merged(servers, false, rows_max, None).await, all);
            assert_eq!(merged(servers, false, rows_max, Some(4)).await, all[..4]);
        }
        let back: &[&[&[i64]]] = &[&[&[5, 3], &[3, 1]], &[&[6, 3, 1, 1]]];
        let all = vec![(1, 6), (0, 5), (1, 3), (0, 3), (0, 3), (1, 1), (1, 1), (0, 1)];
        assert_eq!(merged(back, true, 3, None).await, all);
        assert!(merged(&[&[], &[]], false, 10, None).await.is_empty());
    }

    #[tokio::test]
    async fn pieces_without_an_end_are_an_error() {
        let (sender, receiver) = channel(2);
        sender.send(Ok(Piece::Batch(batch(0, &[1])))).await.unwrap();
        drop(sender);
        let mut merge = Merge::new(vec![receiver], false, 10, None);
        assert!(merge.next().await.unwrap().is_some());
        assert!(merge.next().await.is_err());
    }
}
