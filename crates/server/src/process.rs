//! Resource usage of the process, where the operating system provides it.

use crate::metrics_page::MetricsPage;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// With less, the next log file may not fit.
const DISK_FREE_LEAST: u64 = 1 << 20;

/// Units per second of processor time on Linux, independent of the kernel's clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// Resource usage; `None` where the system does not provide it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Process {
    /// Processor time of all threads since the start.
    pub cpu_seconds: Option<f64>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    pub threads: Option<u64>,
    /// Open files, sockets and pipes, and their limit.
    pub open_files: Option<u64>,
    pub open_files_max: Option<u64>,
    /// Of the file system of the database: for users other than root, and in total.
    pub disk_free_bytes: Option<u64>,
    pub disk_total_bytes: Option<u64>,
}

impl Process {
    /// Measures this process, and the file system of a directory.
    pub fn measure(database: &Path) -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let disk = disk(database);
        Self {
            cpu_seconds: cpu_seconds(&stat),
            resident_bytes: number_of(&status, "VmRSS:").map(|kib| kib * 1024),
            threads: number_of(&status, "Threads:"),
            // One is open for this count.
            open_files: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| (files.count() as u64).saturating_sub(1)),
            open_files_max: fs::read_to_string("/proc/self/limits")
                .ok()
                .and_then(|text| open_files_max(&text)),
            disk_free_bytes: disk.map(|(free, _)| free),
            disk_total_bytes: disk.map(|(_, total)| total),
        }
    }

    /// Adds the known values to a page.
    pub fn write(&self, page: &mut MetricsPage) {
        if let Some(seconds) = self.cpu_seconds {
            page.counter_of(
                "process_cpu_seconds",
                "Processor time of the process, of all its threads.",
                seconds,
            );
        }
        let gauges = [
            ("resident_bytes", "Memory of the process.", self.resident_bytes),
            ("process_threads", "Threads of the process.", self.threads),
            ("process_open_files", "Files, sockets and pipes that are open.", self.open_files),
            ("process_open_files_max", "Files, sockets and pipes that may be open.", self.open_files_max),
            ("disk_free_bytes", "Free where the database is.", self.disk_free_bytes),
            ("disk_total_bytes", "Room where the database is, free or not.", self.disk_total_bytes),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                page.gauge(name, help, value);
            }
        }
    }
}

/// The fields after the name, which is in brackets and may contain any characters: user and system time are the 12th
/// and 13th.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// The number after a word at the start of a line.
fn number_of(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse().ok()
}

fn open_files_max(limits: &str) -> Option<u64> {
    number_of(limits, "Max open files")
}

/// What is wrong with the disk of a database, if it is nearly full: appends fail soon, or have begun to.
pub(crate) fn disk_problem(database: &Path) -> Option<String> {
    disk(database).and_then(nearly_full)
}

fn nearly_full((free, total): (u64, u64)) -> Option<String> {
    (free < DISK_FREE_LEAST)
        .then(|| format!("{free} bytes are free, of {total}: appends fail when the disk is full; free space"))
}

#[cfg(unix)]
fn disk(path: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some((found.f_bavail.checked_mul(found.f_frsize)?, found.f_blocks.checked_mul(found.f_frsize)?))
}

#[cfg(not(unix))]
fn disk(_: &Path) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_procfs_are_parsed() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 2283 0 0 0 250 50 0 0 20 0 3 0 100 9 9";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(number_of("Name:\tx\nThreads:\t12\n", "Threads:"), Some(12));
        assert_eq!(
            open_files_max("Limit   Soft\nMax open files            1024         4096   files\n"),
            Some(1024)
        );
        assert_eq!(open_files_max("Max open files   unlimited  unlimited files\n"), None);
        assert_eq!((cpu_seconds(""), number_of("", "x")), (None, None));
    }

    #[test]
    fn a_nearly_full_disk_is_a_problem() {
        assert_eq!(nearly_full((DISK_FREE_LEAST, 1 << 40)), None);
        assert!(nearly_full((4096, 1 << 40)).is_some_and(|why| why.starts_with("4096 bytes are free")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_measured() {
        let process = Process::measure(Path::new("/"));
        assert!(process.cpu_seconds.is_some() && process.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(process.threads.is_some_and(|threads| threads >= 1));
        assert!(process.open_files.is_some_and(|files| files >= 3) && process.open_files_max.is_some());
        assert!(process.disk_total_bytes >= process.disk_free_bytes && process.disk_total_bytes > Some(0));
    }
}
