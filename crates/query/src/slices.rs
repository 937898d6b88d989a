//! Slices of time that several threads read at once, and one operator takes in order.
//!
//! Thread `i` of `n` reads the slices `i`, `i + n` and so on, each behind the other into a queue of its own. The operator takes all of the
//! first slice, then all of the second one, and so on: so rows come as one thread would read them.

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;
use tokio::sync::mpsc;

/// First and last times.
pub(crate) type Slice = (i64, i64);

/// What a thread passes on.
#[derive(Debug)]
enum Item<T> {
    Rows(T),
    EndOfSlice,
}

/// The queue of a thread.
#[derive(Debug)]
struct Queue<T> {
    items: mpsc::Receiver<Item<T>>,
    /// `None`: it has ended.
    task: Option<SpawnedTask<Result<()>>>,
}

/// Slices that are being read. Dropped, the threads end with what they read at the moment.
#[derive(Debug)]
pub(crate) struct Slices<T> {
    queues: Vec<Queue<T>>,
    /// The slice whose rows are taken, and the number of slices.
    at: usize,
    count: usize,
}

impl<T: Send + 'static> Slices<T> {
    /// Begins to read. `read` is called with a slice and a function that takes rows, and returns `false` when no more are wanted; each
    /// thread has made one of its own. So many rows may wait in a queue.
    pub fn read<R>(slices: Vec<Slice>, threads: usize, waiting: usize, reader: impl Fn(usize) -> R) -> Self
    where
        R: FnMut(Slice, &mut dyn FnMut(T) -> bool) -> Result<()> + Send + 'static,
    {
        let count = slices.len();
        let slices = Arc::new(slices);
        let threads = threads.clamp(1, count.max(1));
        let queue = |thread: usize| {
            let (sender, items) = mpsc::channel(waiting);
            let (slices, mut read) = (slices.clone(), reader(thread));
            let task = SpawnedTask::spawn_blocking(move || {
                for slice in slices.iter().skip(thread).step_by(threads) {
                    read(*slice, &mut |rows| sender.blocking_send(Item::Rows(rows)).is_ok())?;
                    if sender.blocking_send(Item::EndOfSlice).is_err() {
                        break;
                    }
                }
                Ok(())
            });
            Queue { items, task: Some(task) }
        };
        Self { queues: (0..threads).map(queue).collect(), at: 0, count }
    }

    /// The next rows, and the number of their slice; `None`: that was all.
    ///
    /// # Errors
    /// When rows cannot be read.
    pub async fn next(&mut self) -> Result<Option<(usize, T)>> {
        while self.at < self.count {
            let threads = self.queues.len();
            let queue = &mut self.queues[self.at % threads];
            match queue.items.recv().await {
                Some(Item::Rows(rows)) => return Ok(Some((self.at, rows))),
                Some(Item::EndOfSlice) => self.at += 1,
                None => {
                    // It failed; if it was stopped, nothing more comes.
                    self.at = self.count;
                    if let Some(task) = queue.task.take() {
                        task.join_unwind()
                            .await
                            .map_err(|error| DataFusionError::External(Box::new(error)))??;
                    }
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::exec_err;
    use tokio::runtime::Builder;

    /// Reads ten numbers of each slice; one slice may fail.
    fn found(count: usize, threads: usize, bad: Option<i64>) -> (Vec<(usize, i64)>, bool) {
        let slices = (0..count as i64).map(|at| (at * 10, at * 10 + 9)).collect();
        let reader = |_| {
            move |(from, last): Slice, give: &mut dyn FnMut(i64) -> bool| {
                for number in from..=last {
                    if bad == Some(number) {
                        return exec_err!("bad");
                    }
                    if !give(number) {
                        break;
                    }
                }
                Ok(())
            }
        };
        Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(async {
            let (mut slices, mut found) = (Slices::read(slices, threads, 2, reader), Vec::new());
            loop {
                match slices.next().await {
                    Ok(Some(rows)) => found.push(rows),
                    Ok(None) => return (found, true),
                    Err(_) => return (found, false),
                }
            }
        })
    }

    #[test]
    fn rows_come_in_order_whoever_reads_them() {
        for (count, threads) in [(0, 2), (1, 3), (2, 1), (7, 2), (9, 4)] {
            let wanted: Vec<_> =
                (0..count as i64 * 10).map(|number| (number as usize / 10, number)).collect();
            assert_eq!(found(count, threads, None), (wanted, true), "{count} {threads}");
        }
        let (rows, is_done) = found(5, 2, Some(23));
        assert_eq!((rows.len(), is_done), (23, false));
    }

    #[test]
    fn threads_end_when_nobody_takes() {
        Builder::new_multi_thread().worker_threads(1).build().unwrap().block_on(async {
            let reader = |_| {
                |_: Slice, give: &mut dyn FnMut(u8) -> bool| {
                    while give(1) {}
                    Ok(())
                }
            };
            let mut slices = Slices::read(vec![(0, 1), (2, 3)], 2, 1, reader);
            assert!(slices.next().await.unwrap().is_some());
        });
    }
}
