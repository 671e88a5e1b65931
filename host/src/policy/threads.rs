//! The threads that guests run on.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

type Task = Box<dyn FnOnce(&Runtime) + Send>;

/// A few threads, each with a runtime of its own whose only driver is a timer. They end when this is dropped.
#[derive(Debug)]
pub struct GuestThreads {
    tasks: Sender<Task>,
}

impl GuestThreads {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// The system has no thread left.
    pub fn start(count: usize) -> io::Result<Self> {
        let (tasks, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..count.max(1) {
            let runtime = Builder::new_current_thread().enable_time().build()?;
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(format!("policy-{number}")).spawn(move || work(&queue, &runtime))?;
        }
        Ok(Self { tasks })
    }

    /// Runs a task on one of the threads; `None` when it panicked.
    pub async fn run<T: Send + 'static>(&self, task: impl FnOnce(&Runtime) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let task: Task = Box::new(move |runtime| drop(answer.send(task(runtime))));
        self.tasks.send(task).ok()?;
        answered.await.ok()
    }
}

fn work(queue: &Mutex<Receiver<Task>>, runtime: &Runtime) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = next else { return };
        // A thread outlives a task that panics; the one who waits sees its channel closed.
        drop(panic::catch_unwind(AssertUnwindSafe(|| task(runtime))));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "one test needs a task that panics")]

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_leaves_its_thread_to_the_next() -> io::Result<()> {
        let threads = GuestThreads::start(1)?;
        assert_eq!(threads.run(|_| -> u32 { panic!("on purpose") }).await, None);
        assert_eq!(threads.run(|_| 7).await, Some(7));
        Ok(())
    }
}
